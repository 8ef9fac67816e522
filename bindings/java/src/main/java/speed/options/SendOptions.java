package speed.options;

import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import speed.internal.wire.Given;
import speed.message.Protection;
import speed.message.SchemaReference;

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
 * @param traceparent W3C trace context; null takes that of the request or message at hand
 * @param labels for metrics
 * @param baggage W3C baggage
 * @param extensions further fields; keys that begin with {@code x-} are free to use
 * @param progress is told how far the payload has been sent
 * @param protection how it is signed, encrypted and compressed; what is null is left to the node
 * @param schema of its payload
 * @param unordered whether what is sent later need not wait for this, if it goes in segments
 * @param dropIfFull whether an event is not waited for where a subscriber has no room
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
        Progress progress,
        Protection protection,
        SchemaReference schema,
        boolean unordered,
        boolean dropIfFull) {
    /**
     * Checks what is null; a timeout that is too long to be counted is for ever.
     *
     * @param acknowledged whether {@code send} waits until the receiver has the message
     * @param timeout longest wait for room in the receiver's lane, and for the acknowledgement
     * @param topic of a message; an event has its own
     * @param priority 1 to 10, 0 for the default
     * @param ttlSeconds after which it is expired, 0 for never
     * @param correlationId ties an answer to its question, may be null
     * @param causalityParent id of the message that caused this one, may be null
     * @param traceparent W3C trace context; null takes that of the request or message at hand
     * @param labels for metrics
     * @param baggage W3C baggage
     * @param extensions further fields; keys that begin with {@code x-} are free to use
     * @param progress is told how far the payload has been sent
     * @param protection how it is signed, encrypted and compressed; what is null is left to the node
     * @param schema of its payload
     * @param unordered whether what is sent later need not wait for this, if it goes in segments
     * @param dropIfFull whether an event is not waited for where a subscriber has no room
     * @throws speed.errors.ConfigurationException for null, but where it may be
     */
    public SendOptions {
        timeout = Given.timeout(timeout);
        Given.value("topic", topic);
        Given.value("labels", labels);
        Given.value("baggage", baggage);
        Given.value("extensions", extensions);
        Given.value("progress", progress);
        Given.value("protection", protection);
        Given.value("schema", schema);
    }

    /** No acknowledgement, five seconds, no metadata but what every message has. */
    public static final SendOptions DEFAULT = new SendOptions(false, Duration.ofSeconds(5), "message", 0, 0, null, null,
            null, Map.of(), Map.of(), Map.of(), (written, total) -> {}, Protection.NONE, SchemaReference.NONE, false, false);

    /**
     * Wait until the receiver has it: its handler returned, or it waits there for {@code receive}.
     *
     * @return such options
     */
    public SendOptions withAcknowledgement() {
        return with(draft -> draft.acknowledged = true);
    }

    /**
     * Another longest wait.
     *
     * @param newTimeout the longest wait
     * @return such options
     */
    public SendOptions withTimeout(Duration newTimeout) {
        return with(draft -> draft.timeout = newTimeout);
    }

    /**
     * Another topic.
     *
     * @param newTopic the topic
     * @return such options
     */
    public SendOptions withTopic(String newTopic) {
        return with(draft -> draft.topic = newTopic);
    }

    /**
     * A priority.
     *
     * @param newPriority 1 to 10
     * @return such options
     */
    public SendOptions withPriority(int newPriority) {
        return with(draft -> draft.priority = newPriority);
    }

    /**
     * A time to live.
     *
     * @param ttl whole seconds after which it is expired
     * @return such options
     */
    public SendOptions withTtl(Duration ttl) {
        return with(draft -> draft.ttlSeconds = Given.value("ttl", ttl).toSeconds());
    }

    /**
     * Ties an answer to its question.
     *
     * @param id any text
     * @return such options
     */
    public SendOptions withCorrelationId(String id) {
        return with(draft -> draft.correlationId = id);
    }

    /**
     * The message that caused this one.
     *
     * @param id of that message
     * @return such options
     */
    public SendOptions withCausalityParent(String id) {
        return with(draft -> draft.causalityParent = id);
    }

    /**
     * A trace context.
     *
     * @param newTraceparent W3C traceparent
     * @return such options
     */
    public SendOptions withTraceparent(String newTraceparent) {
        return with(draft -> draft.traceparent = newTraceparent);
    }

    /**
     * Labels for metrics.
     *
     * @param newLabels by name
     * @return such options
     */
    public SendOptions withLabels(Map<String, String> newLabels) {
        return with(draft -> draft.labels = newLabels);
    }

    /**
     * W3C baggage.
     *
     * @param newBaggage by key
     * @return such options
     */
    public SendOptions withBaggage(Map<String, String> newBaggage) {
        return with(draft -> draft.baggage = newBaggage);
    }

    /**
     * Further fields; keys that begin with {@code x-} are free to use.
     *
     * @param newExtensions by key
     * @return such options
     */
    public SendOptions withExtensions(Map<String, byte[]> newExtensions) {
        return with(draft -> draft.extensions = newExtensions);
    }

    /**
     * Something that is told how far a payload has been sent.
     *
     * @param newProgress called after each segment, or once for what needs none
     * @return such options
     */
    public SendOptions withProgress(Progress newProgress) {
        return with(draft -> draft.progress = newProgress);
    }

    /**
     * Signed, encrypted or compressed; what no envelope holds (64 MiB) cannot be.
     *
     * @param newProtection what is done to the message
     * @return such options
     */
    public SendOptions withProtection(Protection newProtection) {
        return with(draft -> draft.protection = newProtection);
    }

    /**
     * With the name of its payload's schema.
     *
     * @param newSchema what the message says of it
     * @return such options
     */
    public SendOptions withSchema(SchemaReference newSchema) {
        return with(draft -> draft.schema = newSchema);
    }

    /**
     * What is sent later need not wait for this, if it is so large that it goes in segments: it may be handled before.
     *
     * @return such options
     */
    public SendOptions withoutOrder() {
        return with(draft -> draft.unordered = true);
    }

    /**
     * An event does not wait for a subscriber that has no room: it is not delivered there, and counted.
     *
     * @return such options
     */
    public SendOptions withDropIfFull() {
        return with(draft -> draft.dropIfFull = true);
    }

    private SendOptions with(Consumer<Draft> change) {
        Draft draft = new Draft(this);
        change.accept(draft);
        return draft.finished();
    }

    /** These options while one of them is changed. */
    private static final class Draft {
        private boolean acknowledged;
        private Duration timeout;
        private String topic;
        private int priority;
        private long ttlSeconds;
        private String correlationId;
        private String causalityParent;
        private String traceparent;
        private Map<String, String> labels;
        private Map<String, String> baggage;
        private Map<String, byte[]> extensions;
        private Progress progress;
        private Protection protection;
        private SchemaReference schema;
        private boolean unordered;
        private boolean dropIfFull;

        Draft(SendOptions from) {
            acknowledged = from.acknowledged;
            timeout = from.timeout;
            topic = from.topic;
            priority = from.priority;
            ttlSeconds = from.ttlSeconds;
            correlationId = from.correlationId;
            causalityParent = from.causalityParent;
            traceparent = from.traceparent;
            labels = from.labels;
            baggage = from.baggage;
            extensions = from.extensions;
            progress = from.progress;
            protection = from.protection;
            schema = from.schema;
            unordered = from.unordered;
            dropIfFull = from.dropIfFull;
        }

        SendOptions finished() {
            return new SendOptions(acknowledged, timeout, topic, priority, ttlSeconds, correlationId, causalityParent,
                    traceparent, labels, baggage, extensions, progress, protection, schema, unordered, dropIfFull);
        }
    }
}
