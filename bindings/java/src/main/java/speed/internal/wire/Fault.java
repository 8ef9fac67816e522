package speed.internal.wire;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import speed.columns.WrongKindException;
import speed.errors.ApplicationException;
import speed.errors.CallException;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.errors.SpeedException;

/**
 * What a failure in a service's code tells the caller: never a stack trace, which may show payloads.
 *
 * @param code the error's code
 * @param text its text
 * @param details its details
 * @param isDeclared whether the service made the error as its answer; else it is a trouble of the service
 */
public record Fault(String code, String text, Map<String, Object> details, boolean isDeclared) {
    private static final String FAILED = "EXECUTION_FAILED";

    /** The fault of what was thrown for a call with these arguments: that one is a column of another kind is its caller's. */
    public static Fault of(Throwable failure, Map<String, Object> arguments) {
        if (failure instanceof WrongKindException wrong) {
            for (Map.Entry<String, Object> one : arguments.entrySet()) {
                if (wrong.isOf(one.getValue())) {
                    return refusal(one.getKey(), wrong);
                }
            }
        }
        return of(failure);
    }

    private static Fault refusal(String argument, WrongKindException wrong) {
        String expected = wrong.expected().name();
        String given = wrong.given().name();
        return new Fault(
                "INVALID_ARGUMENTS",
                "argument '" + argument + "' must be " + expected + ", not " + given,
                Map.of("argument", argument, "expected", expected, "given", given),
                true);
    }

    /** The fault of what was thrown. */
    public static Fault of(Throwable failure) {
        Throwable known = failure instanceof CompletionException || failure instanceof ExecutionException
                ? causeOf(failure)
                : failure;
        if (known instanceof SpeedException call && call.node() != null) {
            return new Fault(
                    FAILED,
                    textOf(failure),
                    Map.of("cause", call.code(), "node", call.node(), "service", call.service()),
                    false);
        }
        if (failure instanceof ApplicationException
                || failure instanceof InvalidArgumentsException
                || failure instanceof ExecutionFailedException) {
            CallException declared = (CallException) failure;
            return new Fault(declared.code(), declared.getMessage(), declared.details(), true);
        }
        Map<String, Object> details = new LinkedHashMap<>(Map.of("exception", kindOf(failure)));
        if (failure instanceof CallException call) {
            details.put("cause", call.code());
        }
        return new Fault(FAILED, textOf(failure), details, false);
    }

    /** The kind and text of a failure, even of one that fails to say why. */
    public static String textOf(Throwable failure) {
        String kind = kindOf(failure);
        String text = messageOf(failure);
        return text == null || text.isEmpty() ? kind : kind + ": " + text;
    }

    /** The name of its class; with its package where it has no name of its own. */
    private static String kindOf(Throwable failure) {
        String name = failure.getClass().getSimpleName();
        return name.isEmpty() ? failure.getClass().getName() : name;
    }

    /** What caused a failure; null where nothing did, or it fails to say it. */
    public static Throwable causeOf(Throwable failure) {
        try {
            return failure.getCause();
        } catch (Throwable speechless) { // the program's code, as its text is
            return null;
        }
    }

    /** The text of a failure; null where it has none, or fails to say it. */
    public static String messageOf(Throwable failure) {
        try {
            return failure.getMessage();
        } catch (Throwable speechless) { // its text is the program's code
            return null;
        }
    }
}
