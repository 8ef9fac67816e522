package speed.internal.engine.call;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import speed.errors.CallException;
import speed.errors.Execution;
import speed.errors.InternalException;
import speed.errors.NodeLeavingException;
import speed.errors.SpeedException;
import speed.errors.WireException;
import speed.internal.core.CallErrors;
import speed.internal.core.Counters;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.engine.Context;
import speed.internal.wire.Printable;
import speed.internal.wire.SpcResponse;

/**
 * A response that was not decoded yet: whoever waits for it does that. Immutable.
 *
 * @param source the node that answered
 * @param isRepeated whether an earlier generation of that node may have run the call too
 */
record Answer(String source, byte[] payload, boolean isRepeated) {
    /** Codes that do not say themselves what is to be done. */
    private static final Set<String> ADVISED = Set.of("TIMEOUT", "INTERNAL_ERROR", "WITHDRAWN");

    /** The result of a call; throws what ended it. */
    static Object read(Context context, Outcome outcome, boolean views) {
        try {
            if (outcome.error() != null) {
                throw outcome.error();
            }
            return ((Answer) outcome.result()).result(context, views);
        } catch (SpeedException failure) {
            if (failure.execution() == null) {
                failure.about(Execution.MAY_HAVE_RUN);
            }
            throw failure;
        }
    }

    private Object result(Context context, boolean views) {
        SpcResponse response = decoded(context, views);
        if (response.isSuccess()) {
            return response.result();
        }
        SpeedException error = error(source, response.errorCode(), response.errorMessage(), response.details());
        if (isRepeated && error.execution() == Execution.NOT_BEGUN) {
            error.about(Execution.MAY_HAVE_RUN);
        }
        throw error;
    }

    private SpcResponse decoded(Context context, boolean views) {
        try {
            return SpcResponse.decode(payload, views);
        } catch (WireException odd) {
            context.stats.count(Counters.REJECTED_BAD_PAYLOAD);
            throw new InternalException(
                    "'" + source + "' answered what cannot be read: " + odd.getMessage() + "; the call may have run");
        }
    }

    /** The error of a code as it was received. */
    static SpeedException error(String source, String code, Object message, Map<?, ?> details) {
        String text = source + ": " + Printable.text(String.valueOf(message));
        if (code.equals("LEAVING")) {
            NodeLeavingException leaving =
                    new NodeLeavingException(text + "; nothing ran: call again once it has started anew");
            leaving.about(Execution.NOT_BEGUN);
            return leaving;
        }
        Map<String, Object> named = new LinkedHashMap<>();
        details.forEach((key, value) -> named.put(String.valueOf(key), value));
        CallException error = CallErrors.of(code, text, named);
        return ADVISED.contains(error.code()) ? CallErrors.of(code, error.getMessage() + advice(error), named) : error;
    }

    private static String advice(CallException error) {
        return error.execution() == Execution.NOT_BEGUN
                ? "; nothing ran: call again"
                : "; it may have run: look before you repeat it";
    }
}
