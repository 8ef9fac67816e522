package speed;

import java.time.Duration;
import java.util.Map;

/**
 * How a message or event is sent, and its metadata. Immutable: each method returns other options. What the metadata may
 * be is checked by {@code send} and {@code publish}, which throw {@link speed.errors.WireException}.
 *
 * @param acknowledged whether {@code send} waits until the receiver has the message
 * @param timeout longest wait for room in the receiver's lane, and for the acknowledgement
 * @param topic of a message; an event has its own
 * @param priority 1 to 10, 0 for the default
 * @param ttlSeconds after which it is expired, 0 for never
 * @param correlationId ties an answer to its question, may be null
 * @param causalityParent id of the message that caused this one, may be null
 * @param traceparent W3C trace context; null takes that of the request or message at hand (S-13)
 * @param labels for metrics
 * @param baggage W3C baggage
 * @param extensions further fields; keys that begin with {@code x-} are free to use
 * @param progress is told how far the payload has been sent
 */
public record SendOptions(
        boolean acknowledged,
        Duration timeout,
        String topic,
        int priority,
        long ttlSeconds,
        String correlationId,
        String causalityParent,
        String traceparent,
        Map<String, String> labels,
        Map<String, String> baggage,
        Map<String, byte[]> extensions,
        Progress progress) {
    /** No acknowledgement, five seconds, no metadata but what every message has. */
    public static final SendOptions DEFAULT = new SendOptions(
            false, Duration.ofSeconds(5), "message", 0, 0, null, null, null, Map.of(), Map.of(), Map.of(),
            (written, total) -> {});

    /**
     * Wait until the receiver has it: its handler returned, or it waits there for {@code receive}.
     *
     * @return such options
     */
    public SendOptions withAcknowledgement() {
        return new SendOptions(true, timeout, topic, priority, ttlSeconds, correlationId, causalityParent,
                traceparent, labels, baggage, extensions, progress);
    }

    /**
     * Another longest wait.
     *
     * @param newTimeout the longest wait
     * @return such options
     */
    public SendOptions withTimeout(Duration newTimeout) {
        return new SendOptions(acknowledged, newTimeout, topic, priority, ttlSeconds, correlationId,
                causalityParent, traceparent, labels, baggage, extensions, progress);
    }

    /**
     * Another topic.
     *
     * @param newTopic the topic
     * @return such options
     */
    public SendOptions withTopic(String newTopic) {
        return new SendOptions(acknowledged, timeout, newTopic, priority, ttlSeconds, correlationId,
                causalityParent, traceparent, labels, baggage, extensions, progress);
    }

    /**
     * A trace context.
     *
     * @param newTraceparent W3C traceparent
     * @return such options
     */
    public SendOptions withTraceparent(String newTraceparent) {
        return new SendOptions(acknowledged, timeout, topic, priority, ttlSeconds, correlationId,
                causalityParent, newTraceparent, labels, baggage, extensions, progress);
    }

    /**
     * Something that is told how far a payload has been sent (G-20).
     *
     * @param newProgress called after each segment, or once for what needs none
     * @return such options
     */
    public SendOptions withProgress(Progress newProgress) {
        return new SendOptions(acknowledged, timeout, topic, priority, ttlSeconds, correlationId, causalityParent,
                traceparent, labels, baggage, extensions, newProgress);
    }
}
