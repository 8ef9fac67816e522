package speed.internal.engine.remote;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import speed.errors.CallTimeoutException;
import speed.errors.Execution;
import speed.errors.InternalException;
import speed.errors.NodeLeavingException;
import speed.errors.NotAcknowledgedException;
import speed.errors.NotAvailableException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.internal.core.CallErrors;
import speed.internal.core.CallErrors.DeliveryErrors;
import speed.internal.engine.MessageProtection;
import speed.internal.engine.call.Calls;
import speed.internal.wire.Hosts;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.Printable;
import speed.options.SendOptions;

/** A node of another host: {@code billing@hostb} is asked through the gateway of this root (H-2, H-3). Immutable. */
record GatewayPeer(Calls calls, MessageProtection messages, String name) implements Peer {
    @Override
    public Object call(String service, Map<String, Object> arguments, Duration timeout, String trace, boolean views) {
        return ask("call", callArguments(service, arguments), service, timeout, trace, views);
    }

    @Override
    public CompletableFuture<Object> submit(
            String service, Map<String, Object> arguments, Duration timeout, String trace) {
        Calls.Invocation invocation = new Calls.Invocation(name, service, this::carried);
        try {
            return calls.submit(Hosts.GATEWAY, "call", callArguments(service, arguments), timeout, trace, invocation);
        } catch (SpeedException failure) {
            throw failed(failure, service);
        }
    }

    @Override
    public void heartbeat() {
        about("ping"); // what it answers is a part of the way
    }

    @Override
    public Object about(String operation) {
        String word = operation.toLowerCase(Locale.ROOT);
        return ask(word, Map.of("node", Hosts.checkRemote(name)), word, QUESTION_TIMEOUT, null, false);
    }

    @Override
    public Object serviceNames() {
        return about("services");
    }

    @Override
    public Object described() {
        return about("describe");
    }

    @Override
    public void segment(int size, double parityRate) {
        throw new NotAvailableException("payloads in segments do not cross hosts");
    }

    // --- messages ---

    @Override
    public void send(MessageDraft draft, Object payload, SendOptions options) {
        if (payload instanceof Path) {
            throw new NotAvailableException("a file does not cross hosts: send its bytes in parts");
        }
        byte[] message = messages.encode(draft, payload, options);
        send(List.of(message), options.acknowledged(), options.timeout());
        options.progress().written(message.length, message.length);
    }

    @Override
    public void write(List<byte[]> encoded, long deadlineNanos) {
        send(encoded, false, Duration.ofNanos(deadlineNanos - System.nanoTime()));
    }

    private void send(List<byte[]> encoded, boolean acknowledged, Duration timeout) {
        Map<String, Object> request = Map.of("node", Hosts.checkRemote(name), "messages", encoded, "ack", acknowledged);
        try {
            ask("send", request, "send", timeout, null, false);
        } catch (CallTimeoutException late) {
            throw new NotAcknowledgedException(name + ": " + late.getMessage());
        }
    }

    private Map<String, Object> callArguments(String service, Map<String, Object> arguments) {
        return Map.of("node", Hosts.checkRemote(name), "service", service, "arguments", arguments);
    }

    private Object ask(
            String operation,
            Map<String, Object> arguments,
            String service,
            Duration timeout,
            String trace,
            boolean views) {
        try {
            return carried(calls.call(Hosts.GATEWAY, operation, arguments, timeout, trace, views));
        } catch (SpeedException failure) {
            throw failed(failure, service);
        }
    }

    /** The result in an answer of the gateway, or what ended the call. */
    private Object carried(Object answer) {
        if (answer instanceof Map<?, ?> reply && "SUCCESS".equals(reply.get("status"))) {
            return reply.get("result");
        }
        if (answer instanceof Map<?, ?> reply && "ERROR".equals(reply.get("status"))) {
            throw error(reply);
        }
        throw new InternalException(
                "the node '" + Hosts.GATEWAY + "' answers what no gateway does: stop it, and start speedd");
    }

    /** What it says begins with the node once, whoever said it. */
    private SpeedException error(Map<?, ?> reply) {
        String node = name.substring(0, name.indexOf('@')) + ": ";
        String message = String.valueOf(reply.get("errorMessage"));
        String code = String.valueOf(reply.get("errorCode"));
        String text =
                name + ": " + Printable.text(message.startsWith(node) ? message.substring(node.length()) : message);
        Map<String, Object> details = details(reply.get("details"));
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
    private static Map<String, Object> details(Object value) {
        return value instanceof Map<?, ?> map && map.keySet().stream().allMatch(String.class::isInstance)
                ? (Map<String, Object>) map
                : Map.of();
    }

    /** An error of the way to the gateway, as its caller gets it. */
    private SpeedException failed(SpeedException failure, String service) {
        SpeedException reported = failure;
        if (failure instanceof UnknownNodeException && !failure.getMessage().startsWith(name)) {
            reported = new UnknownNodeException("no speedd of this root joins hosts: add [hosts] to its configuration ("
                    + failure.getMessage() + ")");
            reported.about(Execution.NOT_BEGUN);
        }
        reported.about(name, service);
        return reported;
    }
}
