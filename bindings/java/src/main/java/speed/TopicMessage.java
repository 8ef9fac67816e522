package speed;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.errors.WireException;
import speed.wire.TopicRecord;

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
    private static final String ANSWER = "a message of the host";

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
     * @param type as {@link Value#as} takes it
     * @return the payload, exactly
     * @throws speed.errors.WireException when it is of another kind
     */
    public <T> T payload(Class<T> type) {
        return Value.as(payload, type, "BAD_PAYLOAD", "the payload");
    }

    /** Whether a subscription began anew between this one and another. */
    boolean isOfSameTime(String otherLane, long otherEpoch) {
        return lane.equals(otherLane) && epoch == otherEpoch;
    }

    /** What a row of the host's answer says. */
    static TopicMessage of(String topic, String lane, long epoch, Object answered) {
        List<?> row = row(answered, 4);
        TopicRecord record = TopicRecord.read(as(row.get(3), byte[].class));
        Map<Object, Object> about = record.about();
        return new TopicMessage(topic, as(row.get(0), Long.class), record.payload(),
                about.get("key") == null ? null : as(about.get("key"), String.class), properties(about),
                text(about, "publisher"), Instant.ofEpochMilli(as(row.get(2), Long.class)), as(row.get(1), Integer.class),
                lane, epoch, text(about, "producer"), record.sequence(), record.type() == TopicRecord.TOMBSTONE,
                record.type() == TopicRecord.DEAD_LETTER ? origin(about.get("origin")) : null, record.attempts());
    }

    private static Map<String, String> properties(Map<Object, Object> about) {
        Map<String, String> properties = new LinkedHashMap<>();
        Map<?, ?> given = about.get("properties") == null ? Map.of() : as(about.get("properties"), Map.class);
        given.forEach((name, text) -> properties.put(as(name, String.class), as(text, String.class)));
        return properties;
    }

    private static Origin origin(Object given) {
        if (given == null) {
            return null;
        }
        List<?> parts = row(given, 3);
        return new Origin(as(parts.get(0), String.class), as(parts.get(1), Long.class), as(parts.get(2), String.class));
    }

    private static String text(Map<Object, Object> about, String name) {
        return about.get(name) == null ? "" : as(about.get(name), String.class);
    }

    private static List<?> row(Object given, int size) {
        List<?> row = as(given, List.class);
        if (row.size() != size) {
            throw new WireException("BAD_PAYLOAD", ANSWER + " has " + row.size() + " parts, not " + size);
        }
        return row;
    }

    private static <T> T as(Object value, Class<T> type) {
        return Value.as(value, type, "BAD_PAYLOAD", ANSWER);
    }
}
