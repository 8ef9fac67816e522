package speed.wire;

import java.nio.charset.CharacterCodingException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.WireException;

/**
 * The known fields of one protobuf message, merged as protobuf merges them (M-4): of a singular field the last
 * record counts, text is UTF-8, a known number with another wire type is an unknown field.
 */
final class Records {
    /** A field that is read: its number, what it holds, and the fields inside a message or an entry of a map. */
    private record Field(int number, Kind kind, Shape inside) {}

    private enum Kind { TEXT, BYTES, NUMBER, MESSAGE, MAP }

    /** Which fields of a message are read; each has a slot. */
    static final class Shape {
        private static final int LAST_NUMBER = 97;
        private final Field[] fields;
        private final byte[] slots = new byte[LAST_NUMBER + 1];

        Shape(Field... fields) {
            this.fields = fields;
            Arrays.fill(slots, (byte) -1);
            for (int slot = 0; slot < fields.length; slot++) {
                slots[fields[slot].number] = (byte) slot;
            }
        }

        static Shape ofTexts(int... numbers) {
            return new Shape(Arrays.stream(numbers).mapToObj(Shape::text).toArray(Field[]::new));
        }

        static Field text(int number) {
            return new Field(number, Kind.TEXT, null);
        }

        static Field number(int number) {
            return new Field(number, Kind.NUMBER, null);
        }

        /** Where a field is kept; -1 if it is not. */
        int slot(int number) {
            return number > LAST_NUMBER ? -1 : slots[number];
        }
    }

    private static final Shape TEXT_ENTRY = Shape.ofTexts(1, 2);
    private static final Shape BYTES_ENTRY = new Shape(Shape.text(1), new Field(2, Kind.BYTES, null));
    private static final Shape METADATA = new Shape(Shape.text(1), Shape.text(2), Shape.text(3), Shape.number(4),
            Shape.number(5), Shape.number(6), Shape.number(7), Shape.number(8), Shape.text(9), Shape.text(10),
            Shape.text(11), Shape.text(12));
    private static final Shape ENCRYPTION = Shape.ofTexts(1, 3, 4, 8);
    private static final Shape SECURITY = new Shape(Shape.text(1), Shape.text(2), Shape.text(3), Shape.text(5),
            new Field(6, Kind.MESSAGE, ENCRYPTION), Shape.text(8));
    private static final Shape OBSERVABILITY = new Shape(Shape.text(1), Shape.text(2), Shape.text(3), Shape.number(4),
            new Field(5, Kind.MAP, TEXT_ENTRY), new Field(6, Kind.MAP, TEXT_ENTRY));
    private static final Shape SCHEMA = Shape.ofTexts(1, 2, 3, 4, 5, 6, 7);

    /** A MessageEnvelope without its payload. */
    static final Shape ENVELOPE = new Shape(new Field(1, Kind.MESSAGE, METADATA), new Field(2, Kind.MESSAGE, SECURITY),
            new Field(3, Kind.MESSAGE, OBSERVABILITY), new Field(4, Kind.MESSAGE, SCHEMA),
            new Field(97, Kind.MAP, BYTES_ENTRY));

    private final Shape shape;
    private final Object[] values;

    Records(Shape shape) {
        this.shape = shape;
        values = new Object[shape.fields.length];
    }

    private Object value(int number) {
        return values[shape.slot(number)];
    }

    boolean has(int number) {
        return value(number) != null;
    }

    /** A text field, null if it is absent. */
    String text(int number) {
        return (String) value(number);
    }

    /** A number field, 0 if it is absent. */
    long number(int number) {
        return has(number) ? (Long) value(number) : 0;
    }

    /** A nested message, an empty one if it is absent. */
    Records message(int number) {
        Records found = (Records) value(number);
        return found != null ? found : new Records(shape.fields[shape.slot(number)].inside);
    }

    /** The entries of a map field; field 2 of each is its value. */
    Map<String, Object> map(int number) {
        @SuppressWarnings("unchecked")
        Map<String, Object> found = (Map<String, Object>) value(number);
        return found != null ? found : Map.of();
    }

    /** Merges one record of this message, where a walk stands. */
    void merge(RecordWalk walk) {
        int slot = shape.slot(walk.field);
        if (slot < 0) {
            return;
        }
        Field field = shape.fields[slot];
        boolean fits = walk.type == (field.kind == Kind.NUMBER ? RecordWalk.VARINT : RecordWalk.LENGTH_DELIMITED);
        if (fits) {
            values[slot] = switch (field.kind) {
                case TEXT -> text(walk);
                case BYTES -> Arrays.copyOfRange(walk.data, walk.value, walk.next());
                case NUMBER -> walk.number;
                case MESSAGE -> message(field.number).mergeAll(walk.inside());
                case MAP -> entry(field, walk);
            };
        }
    }

    private Records mergeAll(RecordWalk walk) {
        while (walk.advance()) {
            merge(walk);
        }
        return this;
    }

    /** The map with one more entry; what an entry leaves out is empty. */
    private Map<String, Object> entry(Field field, RecordWalk walk) {
        Records entry = new Records(field.inside).mergeAll(walk.inside());
        Object empty = field.inside == BYTES_ENTRY ? new byte[0] : "";
        Map<String, Object> map = has(field.number) ? map(field.number) : new LinkedHashMap<>();
        map.put(entry.has(1) ? entry.text(1) : "", entry.has(2) ? entry.value(2) : empty);
        return map;
    }

    /** The text of the record at which a walk stands. */
    static String text(RecordWalk walk) {
        try {
            return Utf8.decode(walk.data, walk.value, walk.next() - walk.value);
        } catch (CharacterCodingException broken) {
            throw new WireException("BAD_MESSAGE", "records: field " + walk.field + " is not UTF-8");
        }
    }
}
