package speed.options;

import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import speed.internal.wire.Require;
import speed.message.Protection;
import speed.message.SchemaReference;

/**
 * How a message or event is sent, and its metadata. Immutable: each {@code with…} returns other options, and throws
 * {@link speed.errors.ConfigurationException} for null, but where it may be. What the metadata may be is checked by
 * {@code send} and {@code publish}, which throw {@link speed.errors.WireException}.
 */
public final class SendOptions {
    /** No acknowledgement, five seconds, no metadata but what every message has. */
    public static final SendOptions DEFAULT = new SendOptions(new Values());

    private final Values values;

    private SendOptions(Values values) {
        this.values = values;
    }

    /** The options and their defaults. Written before it is seen by others, and then no more. */
    private static final class Values implements Cloneable {
        private boolean acknowledged;
        private Duration timeout = Duration.ofSeconds(5);
        private String topic = "message";
        private int priority;
        private long ttlSeconds;
        private String correlationId;
        private String causalityParent;
        private String traceparent;
        private Map<String, String> labels = Map.of();
        private Map<String, String> baggage = Map.of();
        private Map<String, byte[]> extensions = Map.of();
        private Progress progress = (written, total) -> {};
        private Protection protection = Protection.NONE;
        private SchemaReference schema = SchemaReference.NONE;
        private boolean unordered;
        private boolean dropIfFull;

        Values copy() {
            try {
                return (Values) clone();
            } catch (CloneNotSupportedException impossible) {
                throw new AssertionError(impossible);
            }
        }
    }

    private SendOptions with(Consumer<Values> change) {
        Values changed = values.copy();
        change.accept(changed);
        return new SendOptions(changed);
    }

    /**
     * Wait until the receiver has it: its handler returned, or it waits there for {@code receive}.
     *
     * @return such options
     */
    public SendOptions withAcknowledgement() {
        return with(values -> values.acknowledged = true);
    }

    /**
     * Another longest wait.
     *
     * @param newTimeout the longest wait
     * @return such options
     */
    public SendOptions withTimeout(Duration newTimeout) {
        return with(values -> values.timeout = Require.timeout(newTimeout));
    }

    /**
     * Another topic.
     *
     * @param newTopic the topic
     * @return such options
     */
    public SendOptions withTopic(String newTopic) {
        return with(values -> values.topic = Require.value("topic", newTopic));
    }

    /**
     * A priority.
     *
     * @param newPriority 1 to 10
     * @return such options
     */
    public SendOptions withPriority(int newPriority) {
        return with(values -> values.priority = newPriority);
    }

    /**
     * A time to live.
     *
     * @param ttl whole seconds after which it is expired
     * @return such options
     */
    public SendOptions withTtl(Duration ttl) {
        return with(values -> values.ttlSeconds = Require.value("ttl", ttl).toSeconds());
    }

    /**
     * Ties an answer to its question.
     *
     * @param id any text
     * @return such options
     */
    public SendOptions withCorrelationId(String id) {
        return with(values -> values.correlationId = id);
    }

    /**
     * The message that caused this one.
     *
     * @param id of that message
     * @return such options
     */
    public SendOptions withCausalityParent(String id) {
        return with(values -> values.causalityParent = id);
    }

    /**
     * A trace context.
     *
     * @param newTraceparent W3C traceparent
     * @return such options
     */
    public SendOptions withTraceparent(String newTraceparent) {
        return with(values -> values.traceparent = newTraceparent);
    }

    /**
     * Labels for metrics.
     *
     * @param newLabels by name
     * @return such options
     */
    public SendOptions withLabels(Map<String, String> newLabels) {
        return with(values -> values.labels = Require.value("labels", newLabels));
    }

    /**
     * W3C baggage.
     *
     * @param newBaggage by key
     * @return such options
     */
    public SendOptions withBaggage(Map<String, String> newBaggage) {
        return with(values -> values.baggage = Require.value("baggage", newBaggage));
    }

    /**
     * Further fields; keys that begin with {@code x-} are free to use.
     *
     * @param newExtensions by key
     * @return such options
     */
    public SendOptions withExtensions(Map<String, byte[]> newExtensions) {
        return with(values -> values.extensions = Require.value("extensions", newExtensions));
    }

    /**
     * Something that is told how far a payload has been sent.
     *
     * @param newProgress called after each segment, or once for what needs none
     * @return such options
     */
    public SendOptions withProgress(Progress newProgress) {
        return with(values -> values.progress = Require.value("progress", newProgress));
    }

    /**
     * Signed, encrypted or compressed; what no envelope holds (64 MiB) cannot be.
     *
     * @param newProtection what is done to the message
     * @return such options
     */
    public SendOptions withProtection(Protection newProtection) {
        return with(values -> values.protection = Require.value("protection", newProtection));
    }

    /**
     * With the name of its payload's schema.
     *
     * @param newSchema what the message says of it
     * @return such options
     */
    public SendOptions withSchema(SchemaReference newSchema) {
        return with(values -> values.schema = Require.value("schema", newSchema));
    }

    /**
     * What is sent later need not wait for this, if it is so large that it goes in segments: it may be handled before.
     *
     * @return such options
     */
    public SendOptions withoutOrder() {
        return with(values -> values.unordered = true);
    }

    /**
     * An event does not wait for a subscriber that has no room: it is not delivered there, and counted.
     *
     * @return such options
     */
    public SendOptions withDropIfFull() {
        return with(values -> values.dropIfFull = true);
    }

    /**
     * Whether {@code send} waits until the receiver has the message.
     *
     * @return as set
     */
    public boolean acknowledged() {
        return values.acknowledged;
    }

    /**
     * Longest wait for room in the receiver's lane, and for the acknowledgement.
     *
     * @return as set
     */
    public Duration timeout() {
        return values.timeout;
    }

    /**
     * Of a message; an event has its own.
     *
     * @return as set
     */
    public String topic() {
        return values.topic;
    }

    /**
     * 1 to 10, 0 for the default.
     *
     * @return as set
     */
    public int priority() {
        return values.priority;
    }

    /**
     * After which it is expired, 0 for never.
     *
     * @return as set
     */
    public long ttlSeconds() {
        return values.ttlSeconds;
    }

    /**
     * Ties an answer to its question, may be null.
     *
     * @return null without one
     */
    public String correlationId() {
        return values.correlationId;
    }

    /**
     * Id of the message that caused this one, may be null.
     *
     * @return null without one
     */
    public String causalityParent() {
        return values.causalityParent;
    }

    /**
     * W3C trace context; null takes that of the request or message at hand.
     *
     * @return null without one
     */
    public String traceparent() {
        return values.traceparent;
    }

    /**
     * For metrics.
     *
     * @return as set
     */
    public Map<String, String> labels() {
        return values.labels;
    }

    /**
     * W3C baggage.
     *
     * @return as set
     */
    public Map<String, String> baggage() {
        return values.baggage;
    }

    /**
     * Further fields; keys that begin with {@code x-} are free to use.
     *
     * @return as set
     */
    public Map<String, byte[]> extensions() {
        return values.extensions;
    }

    /**
     * Is told how far the payload has been sent.
     *
     * @return as set
     */
    public Progress progress() {
        return values.progress;
    }

    /**
     * How it is signed, encrypted and compressed; what is null is left to the node.
     *
     * @return null without one
     */
    public Protection protection() {
        return values.protection;
    }

    /**
     * Of its payload.
     *
     * @return as set
     */
    public SchemaReference schema() {
        return values.schema;
    }

    /**
     * Whether what is sent later need not wait for this, if it goes in segments.
     *
     * @return as set
     */
    public boolean unordered() {
        return values.unordered;
    }

    /**
     * Whether an event is not waited for where a subscriber has no room.
     *
     * @return as set
     */
    public boolean dropIfFull() {
        return values.dropIfFull;
    }
}
