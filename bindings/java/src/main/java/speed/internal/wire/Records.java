package speed.internal.wire;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import speed.errors.WireException;

/**
 * The known fields of one protobuf message, merged as protobuf merges them: of a singular field the last
 * record counts, text is UTF-8, a known number with another wire type is an unknown field.
 */
final class Records {
    /** Which numbers of a message are text, bytes to keep, numbers, nested messages, maps, and repeated fields. */
    record Shape(
            Set<Integer> texts,
            Set<Integer> bytes,
            Set<Integer> numbers,
            Map<Integer, Shape> messages,
            Map<Integer, Shape> maps,
            Map<Integer, Shape> lists) {
        static Shape of(Set<Integer> texts, Set<Integer> bytes, Set<Integer> numbers) {
            return new Shape(texts, bytes, numbers, Map.of(), Map.of(), Map.of());
        }

        static Shape ofTexts(Integer... texts) {
            return of(Set.of(texts), Set.of(), Set.of());
        }

        Shape withMessages(Map<Integer, Shape> nested) {
            return new Shape(texts, bytes, numbers, nested, maps, lists);
        }

        Shape withMaps(Map<Integer, Shape> nested) {
            return new Shape(texts, bytes, numbers, messages, nested, lists);
        }

        Shape withLists(Map<Integer, Shape> nested) {
            return new Shape(texts, bytes, numbers, messages, maps, nested);
        }
    }

    private static final Shape TEXT_ENTRY = Shape.ofTexts(1, 2);
    private static final Shape BYTES_ENTRY = Shape.of(Set.of(1), Set.of(2), Set.of());
    private static final Shape METADATA = Shape.of(Set.of(1, 2, 3, 9, 10, 11, 12), Set.of(), Set.of(4, 5, 6, 7, 8, 13));
    private static final Shape RECIPIENT = Shape.of(Set.of(1), Set.of(2, 3), Set.of());
    private static final Shape ENCRYPTION =
            Shape.of(Set.of(1, 3, 4, 8), Set.of(5, 6), Set.of(2)).withLists(Map.of(9, RECIPIENT));
    private static final Shape SECURITY =
            Shape.of(Set.of(1, 2, 3, 5, 8, 9), Set.of(4), Set.of(7)).withMessages(Map.of(6, ENCRYPTION));
    private static final Shape OBSERVABILITY =
            Shape.of(Set.of(1, 2, 3), Set.of(), Set.of(4)).withMaps(Map.of(5, TEXT_ENTRY, 6, TEXT_ENTRY));
    /** The items of a repeated text field. */
    private static final Shape TEXT = Shape.ofTexts();

    private static final Shape SCHEMA = Shape.ofTexts(1, 2, 3, 4, 5, 6).withLists(Map.of(7, TEXT));

    /** A MessageEnvelope without its payload. */
    static final Shape ENVELOPE = Shape.ofTexts()
            .withMessages(Map.of(1, METADATA, 2, SECURITY, 3, OBSERVABILITY, 4, SCHEMA))
            .withMaps(Map.of(97, BYTES_ENTRY));

    private static final byte[] NO_BYTES = {};

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

    /** A text field, empty if it is absent. */
    String textOrEmpty(int number) {
        return (String) fields.getOrDefault(number, "");
    }

    /** A bytes field, empty if it is absent. */
    byte[] bytes(int number) {
        return (byte[]) fields.getOrDefault(number, NO_BYTES);
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

    /** The texts of a repeated field. */
    List<String> texts(int number) {
        @SuppressWarnings("unchecked")
        List<String> found = (List<String>) fields.get(number);
        return found != null ? List.copyOf(found) : List.of();
    }

    /** The messages of a repeated field. */
    List<Records> list(int number) {
        @SuppressWarnings("unchecked")
        List<Records> found = (List<Records>) fields.get(number);
        return found != null ? found : List.of();
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
            fields.put(walk.field, walk.copy());
        } else if (shape.messages.containsKey(walk.field)) {
            ((Records) fields.computeIfAbsent(walk.field, number -> new Records(shape.messages.get(number))))
                    .mergeAll(walk.inside());
        } else if (shape.maps.containsKey(walk.field)) {
            entry(walk);
        } else if (shape.lists.containsKey(walk.field)) {
            item(walk);
        }
    }

    private void item(RecordWalk walk) {
        @SuppressWarnings("unchecked")
        List<Object> items = (List<Object>) fields.computeIfAbsent(walk.field, any -> new ArrayList<>());
        Shape kind = shape.lists.get(walk.field);
        if (kind == TEXT) {
            items.add(text(walk));
            return;
        }
        Records item = new Records(kind);
        item.mergeAll(walk.inside());
        items.add(item);
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

    /** Writes the records of one protobuf message, in the order of the calls; what is null, 0 or empty is not written. */
    public static final class RecordWriter {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();

        public RecordWriter text(int field, String text) {
            return text == null || text.isEmpty() ? this : record(field, text.getBytes(StandardCharsets.UTF_8));
        }

        public RecordWriter number(int field, long number) {
            if (number != 0) {
                varint((long) field << 3 | RecordWalk.VARINT);
                varint(number);
            }
            return this;
        }

        public RecordWriter bytes(int field, byte[] bytes) {
            return bytes == null || bytes.length == 0 ? this : record(field, bytes);
        }

        /** A length-delimited record, also of no bytes. */
        public RecordWriter record(int field, byte[] value) {
            varint((long) field << 3 | RecordWalk.LENGTH_DELIMITED);
            varint(value.length);
            return raw(value, 0, value.length);
        }

        /** Records that are written already. */
        RecordWriter raw(byte[] data, int from, int to) {
            out.write(data, from, to - from);
            return this;
        }

        private void varint(long number) {
            long left = number;
            for (; (left & ~0x7FL) != 0; left >>>= 7) {
                out.write((int) left | 0x80);
            }
            out.write((int) left);
        }

        public byte[] toByteArray() {
            return out.toByteArray();
        }
    }
}
