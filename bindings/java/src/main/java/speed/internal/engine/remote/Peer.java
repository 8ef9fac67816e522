package speed.internal.engine.remote;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import speed.errors.WireException;
import speed.internal.wire.MessageDraft;
import speed.options.SendOptions;

/**
 * Another node, as the verbs of this one reach it: directly if it is one of this root, through the gateway if it is one of
 * another host. Thread-safe. An odd answer is a WireException, never another failure.
 */
public interface Peer {
    /** How long a node is waited for that is asked about itself. */
    Duration QUESTION_TIMEOUT = Duration.ofSeconds(5);

    String name();

    /** Calls a service and waits for its result. An interrupt meanwhile withdraws the call. */
    Object call(String service, Map<String, Object> arguments, Duration timeout, String trace, boolean views);

    /** Starts a call. */
    CompletableFuture<Object> submit(String service, Map<String, Object> arguments, Duration timeout, String trace);

    /** Sends one message. */
    void send(MessageDraft draft, Object payload, SendOptions options);

    /** Sends messages that are encoded, in their order and by one write. */
    void write(List<byte[]> messages, long deadlineNanos);

    /** Cuts all that goes there from now on; a size of 0 ends it. */
    void segment(int size, double parityRate);

    /** Waits until it answered that it is there. */
    void heartbeat();

    /** What it answers to INFO or STATS. */
    Object about(String operation);

    /** Names of the services that may be called, as it answers. */
    Object serviceNames();

    /** Descriptions of the services that may be called, as it answers. */
    Object described();

    /** How long a round trip takes. */
    default Duration ping() {
        long began = System.nanoTime();
        heartbeat();
        return Duration.ofNanos(System.nanoTime() - began);
    }

    /** The result of INFO or STATS. */
    @SuppressWarnings("unchecked")
    default Map<String, Object> discover(String operation) {
        Object result = about(operation);
        if (result instanceof Map<?, ?> map && map.keySet().stream().allMatch(String.class::isInstance)) {
            return (Map<String, Object>) map;
        }
        throw odd();
    }

    /** Names of the services that may be called. */
    default List<String> services() {
        if (serviceNames() instanceof List<?> names && names.stream().allMatch(String.class::isInstance)) {
            return names.stream().map(String.class::cast).toList();
        }
        throw odd();
    }

    /** What its services take and give. */
    default List<Map<String, Object>> descriptions() {
        if (described() instanceof List<?> listed
                && listed.stream().allMatch(one -> one instanceof Map<?, ?> map && map.get("name") instanceof String)) {
            return listed.stream().map(Peer::fields).toList();
        }
        throw odd();
    }

    /** The same; ConfigurationException where the nodes of a family differ. */
    default List<Map<String, Object>> descriptionsAlike() {
        return descriptions();
    }

    private static Map<String, Object> fields(Object one) {
        Map<String, Object> fields = new LinkedHashMap<>();
        ((Map<?, ?>) one).forEach((key, value) -> fields.put(String.valueOf(key), value));
        return fields;
    }

    private WireException odd() {
        return new WireException("BAD_PAYLOAD", "'" + name() + "' answered what is no answer to this question");
    }
}
