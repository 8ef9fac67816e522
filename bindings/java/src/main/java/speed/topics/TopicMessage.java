package speed.topics;

import java.time.Instant;
import java.util.Map;
import java.util.Objects;
import speed.internal.wire.Conversion;
import speed.internal.wire.TopicDelivery;
import speed.internal.wire.TopicRecord;

/**
 * One message of a durable topic. Two are equal that are the same delivery of the same message: topic, lane, offset, epoch
 * and attempt say which one it is. Immutable, but for a payload that can be changed.
 */
public final class TopicMessage {
    static {
        TopicDelivery.MESSAGES.install(TopicMessage::new);
    }

    private final TopicDelivery delivery;
    private final Object payload;

    private TopicMessage(TopicDelivery delivery) {
        this.delivery = delivery;
        payload = delivery.record().payload();
    }

    /**
     * Where a dead letter came from.
     *
     * @param topic its topic
     * @param offset its place there
     * @param subscription in which it failed
     */
    public record Origin(String topic, long offset, String subscription) {}

    /**
     * Where it stands.
     *
     * @return the name of a topic
     */
    public String topic() {
        return delivery.topic();
    }

    /**
     * Its place there; offsets only grow.
     *
     * @return from 0
     */
    public long offset() {
        return delivery.offset();
    }

    /**
     * What was published.
     *
     * @return null of a tombstone
     */
    public Object payload() {
        return payload;
    }

    /**
     * The payload as a type of the program.
     *
     * @param <T> the type
     * @param type as {@link speed.Value#as} takes it
     * @return the payload, exactly
     * @throws speed.errors.WireException when it is of another kind
     */
    public <T> T payload(Class<T> type) {
        return Conversion.as(payload, type, "BAD_PAYLOAD", "the payload");
    }

    /**
     * Its key.
     *
     * @return null without one
     */
    public String key() {
        return delivery.metadata().key();
    }

    /**
     * What its publisher wrote beside it.
     *
     * @return maybe empty, not to be changed
     */
    public Map<String, String> properties() {
        return delivery.metadata().properties();
    }

    /**
     * W3C trace context of its publisher, which is in the property {@code traceparent}.
     *
     * @return null without a valid one
     */
    public String traceparent() {
        return delivery.traceparent();
    }

    /**
     * The authenticated node that published it.
     *
     * @return a node name
     */
    public String publisher() {
        return delivery.metadata().publisher();
    }

    /**
     * When it was recorded.
     *
     * @return to the millisecond, by the clock of its host
     */
    public Instant recordedAt() {
        return Instant.ofEpochMilli(delivery.recordedAtMs());
    }

    /**
     * How often it was delivered to its subscription, this time included.
     *
     * @return 0 for readers
     */
    public int attempts() {
        return delivery.attempts();
    }

    /**
     * Whether it was delivered before; it may have been handled then.
     *
     * @return true from the second attempt on
     */
    public boolean redelivered() {
        return attempts() > 1;
    }

    /**
     * The topic's, as the host calls it.
     *
     * @return another one for a topic that is made anew
     */
    public String lane() {
        return delivery.lane();
    }

    /**
     * That of its subscription: one that began anew, by a seek, has another one.
     *
     * @return 0 for readers
     */
    public long epoch() {
        return delivery.epoch();
    }

    /**
     * What its publisher gave for recognising repetitions.
     *
     * @return empty without
     */
    public String producer() {
        return delivery.metadata().producer();
    }

    /**
     * What its publisher gave likewise.
     *
     * @return 0 without
     */
    public long sequence() {
        return delivery.record().sequence();
    }

    /**
     * Whether it says that its key has no value any more.
     *
     * @return then it has no payload
     */
    public boolean isTombstone() {
        return delivery.record().type() == TopicRecord.TOMBSTONE;
    }

    /**
     * Where it came from, if it is a dead letter.
     *
     * @return null of others
     */
    public Origin origin() {
        TopicDelivery.Origin origin = delivery.metadata().origin();
        return origin == null ? null : new Origin(origin.topic(), origin.offset(), origin.subscription());
    }

    /**
     * How often a dead letter had been delivered where it came from.
     *
     * @return 0 of others
     */
    public int failedAttempts() {
        return delivery.record().attempts();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof TopicMessage that
                && topic().equals(that.topic())
                && lane().equals(that.lane())
                && offset() == that.offset()
                && epoch() == that.epoch()
                && attempts() == that.attempts();
    }

    @Override
    public int hashCode() {
        return Objects.hash(topic(), lane(), offset());
    }

    @Override
    public String toString() {
        return "TopicMessage " + topic() + " " + offset() + " of " + publisher();
    }
}
