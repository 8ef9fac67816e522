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
import speed.errors.WireException;
import speed.internal.wire.Fields.MapEntry;

/**
 * The known fields of one protobuf message, merged as protobuf merges them: of a singular field the last
 * record counts, text is UTF-8, a known number with another wire type is an unknown field.
 */
final class Records {
    private static final byte[] NO_BYTES = {};

    private final Field.Shape shape;
    private final Map<Integer, Object> fields = new HashMap<>();

    Records(Field.Shape shape) {
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
        return found != null ? found : new Records(shape.field(number).inside());
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

    /** The entries of a map field. */
    Map<String, Object> map(int number) {
        @SuppressWarnings("unchecked")
        Map<String, Object> found = (Map<String, Object>) fields.get(number);
        return found != null ? found : Map.of();
    }

    /** Merges one record of this message, where a walk stands. */
    void merge(RecordWalk walk) {
        Field field = shape.field(walk.field);
        int type = field.kind() == Field.Kind.NUMBER ? RecordWalk.VARINT : RecordWalk.LENGTH_DELIMITED;
        if (walk.type != type) {
            return;
        }
        switch (field.kind()) {
            case TEXT -> fields.put(walk.field, text(walk));
            case BYTES -> fields.put(walk.field, walk.copy());
            case NUMBER -> fields.put(walk.field, walk.number);
            case MESSAGE ->
                ((Records) fields.computeIfAbsent(walk.field, any -> new Records(field.inside())))
                        .mergeAll(walk.inside());
            case TEXTS -> items(walk.field).add(text(walk));
            case MESSAGES -> items(walk.field).add(inside(walk, field));
            case TEXT_MAP -> entry(walk, inside(walk, field), "");
            case BYTES_MAP -> entry(walk, inside(walk, field), NO_BYTES);
            case UNKNOWN -> {}
        }
    }

    @SuppressWarnings("unchecked")
    private List<Object> items(int number) {
        return (List<Object>) fields.computeIfAbsent(number, any -> new ArrayList<>());
    }

    private static Records inside(RecordWalk walk, Field field) {
        Records inside = new Records(field.inside());
        inside.mergeAll(walk.inside());
        return inside;
    }

    private void mergeAll(RecordWalk walk) {
        while (walk.advance()) {
            merge(walk);
        }
    }

    private void entry(RecordWalk walk, Records entry, Object absent) {
        @SuppressWarnings("unchecked")
        Map<String, Object> map =
                (Map<String, Object>) fields.computeIfAbsent(walk.field, any -> new LinkedHashMap<String, Object>());
        map.put(
                (String) entry.fields.getOrDefault(MapEntry.KEY, ""),
                entry.fields.getOrDefault(MapEntry.VALUE, absent));
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

        /** What a length-delimited record begins with. */
        static byte[] tag(int field) {
            RecordWriter alone = new RecordWriter();
            alone.varint((long) field << 3 | RecordWalk.LENGTH_DELIMITED);
            return alone.toByteArray();
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
