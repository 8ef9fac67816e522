package speed.topics;

import java.time.Instant;
import java.util.Map;
import speed.internal.wire.Conversion;

/**
 * One message of a durable topic.
 *
 * @param topic where it stands
 * @param offset its place there; offsets only grow
 * @param payload what was published; null of a tombstone
 * @param key its key; null without one
 * @param properties what its publisher wrote beside it
 * @param publisher the authenticated node that published it
 * @param recordedAt when it was recorded, in milliseconds
 * @param attempts how often it was delivered to its subscription, this time included; 0 for readers
 * @param lane of its topic, as the host calls it: a topic that is made anew has another one
 * @param epoch of its subscription: one that began anew, by a seek, has another one; 0 for readers
 * @param producer what its publisher gave for recognising repetitions; empty without
 * @param sequence likewise; 0 without
 * @param isTombstone whether it says that its key has no value any more
 * @param origin of a dead letter, where it came from; null of others
 * @param failedAttempts of a dead letter, how often it had been delivered there
 */
public record TopicMessage(
        String topic,
        long offset,
        Object payload,
        String key,
        Map<String, String> properties,
        String publisher,
        Instant recordedAt,
        int attempts,
        String lane,
        long epoch,
        String producer,
        long sequence,
        boolean isTombstone,
        Origin origin,
        int failedAttempts) {
    /**
     * Where a dead letter came from.
     *
     * @param topic its topic
     * @param offset its place there
     * @param subscription in which it failed
     */
    public record Origin(String topic, long offset, String subscription) {}

    /**
     * Whether it was delivered before; it may have been handled then.
     *
     * @return true from the second attempt on
     */
    public boolean redelivered() {
        return attempts > 1;
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
}
