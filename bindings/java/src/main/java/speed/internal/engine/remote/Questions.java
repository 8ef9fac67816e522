package speed.internal.engine.remote;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import speed.errors.WireException;
import speed.internal.engine.call.Calls;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Hosts;

/** What a node asks others about themselves. An odd answer is a WireException, never another failure. */
public final class Questions {
    private static final Duration TIMEOUT = Duration.ofSeconds(5);

    private final Calls calls;
    private final Across across;

    public Questions(Calls calls, Across across) {
        this.calls = calls;
        this.across = across;
    }

    /** A round trip by HEARTBEAT. */
    public Duration ping(String target) {
        long began = System.nanoTime();
        if (Hosts.isRemote(target)) {
            across.about(target, "ping", TIMEOUT); // what it answers is a part of the way
        } else {
            calls.ask(target, EnvelopeType.HEARTBEAT, Map.of(), TIMEOUT);
        }
        return Duration.ofNanos(System.nanoTime() - began);
    }

    /** The result of an operation. */
    @SuppressWarnings("unchecked")
    public Map<String, Object> discover(String target, String operation) {
        Object result = Hosts.isRemote(target) ? across.about(target, operation.toLowerCase(Locale.ROOT), TIMEOUT)
                : calls.ask(target, EnvelopeType.DISCOVERY, Map.of("op", operation), TIMEOUT);
        if (result instanceof Map<?, ?> map && map.keySet().stream().allMatch(String.class::isInstance)) {
            return (Map<String, Object>) map;
        }
        throw odd(target);
    }

    /** Names of the services that may be called. */
    public List<String> services(String target) {
        Object told = Hosts.isRemote(target) ? across.about(target, "services", TIMEOUT)
                : discover(target, "SERVICES").get("services");
        if (told instanceof List<?> names
                && names.stream().allMatch(String.class::isInstance)) {
            return names.stream().map(String.class::cast).toList();
        }
        throw odd(target);
    }

    private static WireException odd(String target) {
        return new WireException("BAD_PAYLOAD", "'" + target + "' answered what is no answer to this question");
    }
}
