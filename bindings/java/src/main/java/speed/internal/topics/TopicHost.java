package speed.internal.topics;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import speed.Caller;
import speed.NodeInfo;
import speed.Peers;
import speed.errors.AccessDeniedException;
import speed.errors.CallWithdrawnException;
import speed.errors.UnknownNodeException;
import speed.errors.WireException;
import speed.internal.wire.Conversion;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.internal.wire.TopicDelivery;
import speed.topics.TopicMessage;

/** The host of a durable topic, as its clients ask it. Thread-safe. */
final class TopicHost {
    /** How long the host waits at most before it answers that there is nothing. */
    static final Duration WAIT = Duration.ofMillis((long) (Limits.TOPIC_WAIT_SECONDS * 1000));
    /** How much longer a call may take than the host waits. */
    static final Duration GRACE = Duration.ofSeconds(5);
    /** Before a host that is away, or too busy to wait, is asked again. */
    static final Duration PAUSE = Duration.ofMillis(50);
    /** So long a program gets what its host said it may have; then the host is asked again. */
    static final Duration FRESH = Duration.ofMillis(20);
    /** Messages that a program may get before the host is asked again. */
    static final int MOST_BEGUN = 64;

    private final Caller caller;
    private final Peers peers;
    private final String name;
    private final String topic;
    private final String host;

    /** The host, as the node of this name asks it. */
    TopicHost(Caller caller, Peers peers, String name, String topic, String host) {
        this.caller = caller;
        this.peers = peers;
        this.name = name;
        this.topic = topic;
        this.host = host;
    }

    String topic() {
        return topic;
    }

    String host() {
        return host;
    }

    /**
     * What it answers to {@code topics.<service>}; the arguments stand behind the topic's name. It is asked again while it
     * allows nobody, as in the moment after its start.
     */
    Answer ask(String service, Map<String, Object> arguments, Duration timeout) {
        Map<String, Object> request = new LinkedHashMap<>();
        request.put("topic", topic);
        request.putAll(arguments);
        long ends = after(timeout.compareTo(GRACE) < 0 ? timeout : GRACE);
        while (true) {
            try {
                return new Answer(caller.call(host, "topics." + service, request, timeout));
            } catch (AccessDeniedException denied) {
                outwait(ends, denied);
            }
        }
    }

    /** Until the host allows this node; throws if it goes on so: then it never did, or does no more. */
    private void outwait(long ends, AccessDeniedException denied) {
        Duration left = until(ends);
        if (left.isZero() || allowsOthers()) {
            throw denied;
        }
        try {
            peers.waitFor(host, left);
        } catch (UnknownNodeException away) {
            throw denied;
        }
    }

    /** Whether it says whom it allows, and this node is not among them: to wait would change nothing. */
    private boolean allowsOthers() {
        return peers.nodes().stream()
                .filter(one -> one.name().equals(host))
                .map(NodeInfo::allow)
                .anyMatch(allow -> !allow.isEmpty() && allow.stream().noneMatch(one -> Names.matches(one, name)));
    }

    /** The messages of an answer; WireException for what is none. */
    List<TopicMessage> messages(Answer answer) {
        String lane = answer.get("lane", String.class);
        long epoch = answer.has("epoch") ? answer.get("epoch", Long.class) : 0;
        return List.of(answer.get("messages", Object[].class)).stream()
                .map(row -> message(TopicDelivery.of(topic, lane, epoch, row)))
                .toList();
    }

    private static TopicMessage message(TopicDelivery delivery) {
        return (TopicMessage) TopicDelivery.MESSAGES.get().apply(delivery);
    }

    /** Asks; an interrupt meanwhile withdraws the call and is thrown, after what came of the call was kept. */
    static boolean interruptibly(BooleanSupplier ask) throws InterruptedException {
        boolean answer = false;
        try {
            answer = ask.getAsBoolean();
        } catch (CallWithdrawnException withdrawn) {
            if (!Thread.currentThread().isInterrupted()) {
                throw withdrawn;
            }
        }
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return answer;
    }

    /** A moment of the monotonic clock, in ns; a long time is for ever. */
    static long after(Duration time) {
        return System.nanoTime() + Math.min(Long.MAX_VALUE / 4, saturated(time));
    }

    private static long saturated(Duration time) {
        return time.toSeconds() > Long.MAX_VALUE / 4_000_000_000L ? Long.MAX_VALUE / 4 : time.toNanos();
    }

    /** What is left until such a moment; zero when it is over. */
    static Duration until(long ends) {
        return Duration.ofNanos(Math.max(0, ends - System.nanoTime()));
    }

    /** An answer of the host; WireException for a member that is missing, or something else. */
    record Answer(Object value) {
        boolean has(String name) {
            return value instanceof Map<?, ?> members && members.get(name) != null;
        }

        <T> T get(String name, Class<T> type) {
            if (!(value instanceof Map<?, ?> members) || members.get(name) == null) {
                throw new WireException("BAD_PAYLOAD", "the host's answer has no '" + name + "'");
            }
            return Conversion.as(members.get(name), type, "BAD_PAYLOAD", "'" + name + "' of the host's answer");
        }
    }
}
