package speed.internal.engine.remote;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import speed.errors.CallTimeoutException;
import speed.errors.Execution;
import speed.errors.InternalException;
import speed.errors.NodeLeavingException;
import speed.errors.NotAcknowledgedException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.internal.core.CallErrors;
import speed.internal.core.DeliveryErrors;
import speed.internal.engine.call.Calls;
import speed.internal.wire.Harmless;
import speed.internal.wire.Hosts;

/**
 * The verbs of a node for nodes of other hosts: {@code billing@hostb} is asked through the gateway of this root (H-2, H-3).
 * Thread-safe.
 */
public final class Across {
    private final Calls calls;

    public Across(Calls calls) {
        this.calls = calls;
    }

    public Object call(String target, String service, Map<String, Object> arguments, Duration timeout, String trace, boolean views) {
        return ask("call", asking(target, service, arguments), target, service, timeout, trace, views);
    }

    public CompletableFuture<Object> submit(
            String target, String service, Map<String, Object> arguments, Duration timeout, String trace) {
        Calls.Asked asked = new Calls.Asked(target, service, answer -> carried(answer, target));
        try {
            return calls.submit(Hosts.GATEWAY, "call", asking(target, service, arguments), timeout, trace, asked);
        } catch (SpeedException failure) {
            throw failed(failure, target, service);
        }
    }

    /** The result of {@code ping}, {@code services}, {@code info} or {@code stats}. */
    public Object about(String target, String operation, Duration timeout) {
        return ask(operation, Map.of("node", Hosts.checkRemote(target)), target, operation, timeout, null, false);
    }

    /** Sends messages that are encoded. */
    public void send(String target, List<byte[]> messages, boolean acknowledged, Duration timeout) {
        Map<String, Object> asked = Map.of("node", Hosts.checkRemote(target), "messages", messages, "ack", acknowledged);
        try {
            ask("send", asked, target, "send", timeout, null, false);
        } catch (CallTimeoutException late) {
            throw new NotAcknowledgedException(target + ": " + late.getMessage());
        }
    }

    private static Map<String, Object> asking(String target, String service, Map<String, Object> arguments) {
        return Map.of("node", Hosts.checkRemote(target), "service", service, "arguments", arguments);
    }

    private Object ask(String operation, Map<String, Object> asked, String target, String service, Duration timeout,
            String trace, boolean views) {
        try {
            return carried(calls.call(Hosts.GATEWAY, operation, asked, timeout, trace, views), target);
        } catch (SpeedException failure) {
            throw failed(failure, target, service);
        }
    }

    /** The result in an answer of the gateway, or what ended the call. */
    private static Object carried(Object answer, String target) {
        if (answer instanceof Map<?, ?> told && "SUCCESS".equals(told.get("status"))) {
            return told.get("result");
        }
        if (answer instanceof Map<?, ?> told && "ERROR".equals(told.get("status"))) {
            throw error(told, target);
        }
        throw new InternalException(
                "the node '" + Hosts.GATEWAY + "' answers what no gateway does: stop it, and start speedd");
    }

    /** What it says begins with the node once, whoever said it. */
    private static SpeedException error(Map<?, ?> told, String target) {
        String node = target.substring(0, target.indexOf('@')) + ": ";
        String said = String.valueOf(told.get("errorMessage"));
        String code = String.valueOf(told.get("errorCode"));
        String text = target + ": " + Harmless.text(said.startsWith(node) ? said.substring(node.length()) : said);
        Map<String, Object> details = details(told.get("details"));
        SpeedException delivery = DeliveryErrors.of(code, text);
        if (delivery == null) {
            return CallErrors.of(code, text, details);
        }
        if (delivery instanceof NodeLeavingException || "not begun".equals(details.get("execution"))) {
            delivery.about(Execution.NOT_BEGUN);
        } else if ("may have run".equals(details.get("execution"))) {
            delivery.about(Execution.MAY_HAVE_RUN);
        }
        return delivery;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> details(Object told) {
        return told instanceof Map<?, ?> map && map.keySet().stream().allMatch(String.class::isInstance)
                ? (Map<String, Object>) map : Map.of();
    }

    /** An error of the way to the gateway, as its caller gets it. */
    private static SpeedException failed(SpeedException failure, String target, String service) {
        SpeedException told = failure;
        if (failure instanceof UnknownNodeException && !failure.getMessage().startsWith(target)) {
            told = new UnknownNodeException("no speedd of this root joins hosts: add [hosts] to its configuration ("
                    + failure.getMessage() + ")");
            told.about(Execution.NOT_BEGUN);
        }
        told.about(target, service);
        return told;
    }
}
