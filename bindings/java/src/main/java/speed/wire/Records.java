package speed.wire;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import speed.errors.WireException;

/**
 * The known fields of one protobuf message, merged as protobuf merges them (M-4): of a singular field the last
 * record counts, text is UTF-8, a known number with another wire type is an unknown field.
 */
final class Records {
    /** Which numbers of a message are text, bytes to keep, numbers, nested messages, and maps. */
    record Shape(Set<Integer> texts, Set<Integer> bytes, Set<Integer> numbers, Map<Integer, Shape> messages,
            Map<Integer, Shape> maps) {
        static Shape ofTexts(Integer... texts) {
            return new Shape(Set.of(texts), Set.of(), Set.of(), Map.of(), Map.of());
        }
    }

    private static final Shape TEXT_ENTRY = Shape.ofTexts(1, 2);
    private static final Shape BYTES_ENTRY = new Shape(Set.of(1), Set.of(2), Set.of(), Map.of(), Map.of());
    private static final Shape METADATA =
            new Shape(Set.of(1, 2, 3, 9, 10, 11, 12), Set.of(), Set.of(4, 5, 6, 7, 8, 13), Map.of(), Map.of());
    private static final Shape ENCRYPTION =
            new Shape(Set.of(1, 3, 4, 8), Set.of(), Set.of(), Map.of(9, Shape.ofTexts(1)), Map.of());
    private static final Shape SECURITY =
            new Shape(Set.of(1, 2, 3, 5, 8, 9), Set.of(), Set.of(), Map.of(6, ENCRYPTION), Map.of());
    private static final Shape OBSERVABILITY = new Shape(
            Set.of(1, 2, 3), Set.of(), Set.of(4), Map.of(), Map.of(5, TEXT_ENTRY, 6, TEXT_ENTRY));
    private static final Shape SCHEMA = Shape.ofTexts(1, 2, 3, 4, 5, 6, 7);

    /** A MessageEnvelope without its payload. */
    static final Shape ENVELOPE = new Shape(Set.of(), Set.of(), Set.of(),
            Map.of(1, METADATA, 2, SECURITY, 3, OBSERVABILITY, 4, SCHEMA), Map.of(97, BYTES_ENTRY));

    private final Shape shape;
    private final Map<Integer, Object> fields = new HashMap<>();

    Records(Shape shape) {
        this.shape = shape;
    }

    boolean has(int number) {
        return fields.containsKey(number);
    }

    /** A text field, null if it is absent. */
    String text(int number) {
        return (String) fields.get(number);
    }

    /** A number field, 0 if it is absent. */
    long number(int number) {
        return (Long) fields.getOrDefault(number, 0L);
    }

    /** A nested message, an empty one if it is absent. */
    Records message(int number) {
        Records found = (Records) fields.get(number);
        return found != null ? found : new Records(shape.messages.get(number));
    }

    /** The entries of a map field; field 2 of each is its value. */
    Map<String, Object> map(int number) {
        @SuppressWarnings("unchecked")
        Map<String, Object> found = (Map<String, Object>) fields.get(number);
        return found != null ? found : Map.of();
    }

    /** Merges one record of this message, where a walk stands. */
    void merge(RecordWalk walk) {
        if (walk.type == RecordWalk.VARINT && shape.numbers.contains(walk.field)) {
            fields.put(walk.field, walk.number);
        } else if (walk.type != RecordWalk.LENGTH_DELIMITED) {
            return;
        } else if (shape.texts.contains(walk.field)) {
            fields.put(walk.field, text(walk));
        } else if (shape.bytes.contains(walk.field)) {
            fields.put(walk.field, Arrays.copyOfRange(walk.data, walk.value, walk.next()));
        } else if (shape.messages.containsKey(walk.field)) {
            ((Records) fields.computeIfAbsent(walk.field, number -> new Records(shape.messages.get(number))))
                    .mergeAll(walk.inside());
        } else if (shape.maps.containsKey(walk.field)) {
            entry(walk);
        }
    }

    private void mergeAll(RecordWalk walk) {
        while (walk.advance()) {
            merge(walk);
        }
    }

    private void entry(RecordWalk walk) {
        Records entry = new Records(shape.maps.get(walk.field));
        entry.mergeAll(walk.inside());
        Object absent = entry.shape == BYTES_ENTRY ? new byte[0] : "";
        @SuppressWarnings("unchecked")
        Map<String, Object> map =
                (Map<String, Object>) fields.computeIfAbsent(walk.field, any -> new LinkedHashMap<String, Object>());
        map.put((String) entry.fields.getOrDefault(1, ""), entry.fields.getOrDefault(2, absent));
    }

    /** The text of the record at which a walk stands. */
    static String text(RecordWalk walk) {
        try {
            ByteBuffer bytes = ByteBuffer.wrap(walk.data, walk.value, walk.next() - walk.value);
            return StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
        } catch (CharacterCodingException broken) {
            throw new WireException("BAD_MESSAGE", "records: field " + walk.field + " is not UTF-8");
        }
    }
}
