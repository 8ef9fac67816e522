package speed.internal.wire;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import speed.errors.WireException;
import speed.internal.access.InternalFactory;
import speed.internal.wire.MessageView.TraceParent;

/**
 * A message of a durable topic as an answer of its host delivers it; a {@code TopicMessage} is made of it.
 *
 * @param lane of the topic, as the host calls it
 * @param epoch of the subscription; 0 for readers
 * @param attempts how often it was delivered to its subscription; 0 for readers
 * @param metadata what the record says beside the payload
 */
public record TopicDelivery(
        String topic,
        String lane,
        long epoch,
        long offset,
        int attempts,
        long recordedAtMs,
        TopicRecord record,
        Metadata metadata) {
    public static final InternalFactory<Function<TopicDelivery, ?>> MESSAGES =
            new InternalFactory<>("speed.topics.TopicMessage");

    /** The property that holds the trace of the publisher. */
    public static final String TRACE = "traceparent";

    private static final String WHAT = "a message of the host";

    /** The trace of the publisher; null without a valid one. */
    public String traceparent() {
        String given = metadata.properties.get(TRACE);
        try {
            return given == null ? null : TraceParent.parse(given).toString();
        } catch (WireException invalid) {
            return null;
        }
    }

    /** What a row of the host's answer says; WireException BAD_PAYLOAD, BAD_JOURNAL. */
    public static TopicDelivery of(String topic, String lane, long epoch, Object answered) {
        List<?> row = row(answered, 4);
        TopicRecord record = TopicRecord.read(as(row.get(3), byte[].class));
        return new TopicDelivery(
                topic,
                lane,
                epoch,
                as(row.get(0), Long.class),
                as(row.get(1), Integer.class),
                as(row.get(2), Long.class),
                record,
                Metadata.of(record));
    }

    /**
     * What a record says beside its payload.
     *
     * @param key null without one
     * @param publisher the authenticated node
     * @param producer empty without
     * @param origin null of what is no dead letter
     */
    public record Metadata(
            String key, Map<String, String> properties, String publisher, String producer, Origin origin) {
        static Metadata of(TopicRecord record) {
            Map<Object, Object> about = record.about();
            return new Metadata(
                    about.get("key") == null ? null : as(about.get("key"), String.class),
                    properties(about),
                    text(about, "publisher"),
                    text(about, "producer"),
                    record.type() == TopicRecord.DEAD_LETTER ? Origin.of(about.get("origin")) : null);
        }

        private static Map<String, String> properties(Map<Object, Object> about) {
            Map<String, String> properties = new LinkedHashMap<>();
            Map<?, ?> given = about.get("properties") == null ? Map.of() : as(about.get("properties"), Map.class);
            given.forEach((name, text) -> properties.put(as(name, String.class), as(text, String.class)));
            return Collections.unmodifiableMap(properties);
        }

        private static String text(Map<Object, Object> about, String name) {
            return about.get(name) == null ? "" : as(about.get(name), String.class);
        }
    }

    /** Where a dead letter came from. */
    public record Origin(String topic, long offset, String subscription) {
        private static Origin of(Object given) {
            if (given == null) {
                return null;
            }
            List<?> parts = row(given, 3);
            return new Origin(
                    as(parts.get(0), String.class), as(parts.get(1), Long.class), as(parts.get(2), String.class));
        }
    }

    private static List<?> row(Object given, int size) {
        List<?> row = as(given, List.class);
        if (row.size() != size) {
            throw new WireException("BAD_PAYLOAD", WHAT + " has " + row.size() + " parts, not " + size);
        }
        return row;
    }

    private static <T> T as(Object value, Class<T> type) {
        return Conversion.as(value, type, "BAD_PAYLOAD", WHAT);
    }
}
