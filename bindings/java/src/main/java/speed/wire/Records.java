package speed.wire;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.WireFormat;
import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import speed.errors.WireException;

/**
 * The known fields of one protobuf message, read as protobuf merges them (M-4): of a singular field the last
 * record counts, text is UTF-8, a known number with another wire type is an unknown field.
 */
final class Records {
    /** Which numbers of a message are text, numbers, nested messages, and maps. */
    record Shape(Set<Integer> texts, Set<Integer> numbers, Map<Integer, Shape> messages, Map<Integer, Shape> maps) {}

    private static final Shape TEXT_ENTRY = new Shape(Set.of(1, 2), Set.of(), Map.of(), Map.of());
    private static final Shape BYTES_ENTRY = new Shape(Set.of(1), Set.of(), Map.of(), Map.of());
    private static final Shape METADATA =
            new Shape(Set.of(1, 2, 3, 9, 10, 11, 12), Set.of(4, 5, 6, 7, 8), Map.of(), Map.of());
    private static final Shape ENCRYPTION = new Shape(Set.of(1, 3, 4, 8), Set.of(), Map.of(), Map.of());
    private static final Shape SECURITY =
            new Shape(Set.of(1, 2, 3, 5, 8), Set.of(), Map.of(6, ENCRYPTION), Map.of());
    private static final Shape OBSERVABILITY =
            new Shape(Set.of(1, 2, 3), Set.of(4), Map.of(), Map.of(5, TEXT_ENTRY, 6, TEXT_ENTRY));
    private static final Shape SCHEMA = new Shape(Set.of(1, 2, 3, 4, 5, 6, 7), Set.of(), Map.of(), Map.of());

    /** A MessageEnvelope without its payload. */
    static final Shape ENVELOPE = new Shape(Set.of(), Set.of(),
            Map.of(1, METADATA, 2, SECURITY, 3, OBSERVABILITY, 4, SCHEMA), Map.of(97, BYTES_ENTRY));

    /** A google.protobuf.Any without its value. */
    static final Shape ANY = new Shape(Set.of(1), Set.of(), Map.of(), Map.of());

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

    /** Merges the records of some bytes into this message. */
    void merge(byte[] data, int from, int length) {
        try {
            CodedInputStream input = CodedInputStream.newInstance(data, from, length);
            for (int tag = input.readTag(); tag != 0; tag = input.readTag()) {
                field(input, tag);
            }
        } catch (IOException broken) {
            throw new WireException("BAD_MESSAGE", "records: not a MessageEnvelope");
        }
    }

    private void field(CodedInputStream input, int tag) throws IOException {
        int number = WireFormat.getTagFieldNumber(tag);
        int type = WireFormat.getTagWireType(tag);
        if (type == WireFormat.WIRETYPE_VARINT && shape.numbers.contains(number)) {
            fields.put(number, input.readInt64());
        } else if (type != WireFormat.WIRETYPE_LENGTH_DELIMITED) {
            skip(input, tag);
        } else if (shape.texts.contains(number)) {
            fields.put(number, input.readStringRequireUtf8());
        } else if (shape.messages.containsKey(number)) {
            ByteString nested = input.readBytes();
            ((Records) fields.computeIfAbsent(number, any -> new Records(shape.messages.get(number)))).merge(nested);
        } else if (shape.maps.containsKey(number)) {
            entry(number, input.readBytes());
        } else if (shape == BYTES_ENTRY && number == 2) {
            fields.put(number, input.readByteArray());
        } else {
            skip(input, tag);
        }
    }

    private static void skip(CodedInputStream input, int tag) throws IOException {
        if (!input.skipField(tag)) {
            throw new WireException("BAD_MESSAGE", "records: the end of a group that did not begin");
        }
    }

    private void entry(int number, ByteString data) {
        Records entry = new Records(shape.maps.get(number));
        entry.merge(data);
        Object absent = entry.shape == BYTES_ENTRY ? new byte[0] : "";
        @SuppressWarnings("unchecked")
        Map<String, Object> map =
                (Map<String, Object>) fields.computeIfAbsent(number, any -> new LinkedHashMap<String, Object>());
        map.put((String) entry.fields.getOrDefault(1, ""), entry.fields.getOrDefault(2, absent));
    }

    private void merge(ByteString data) {
        merge(data.toByteArray(), 0, data.size());
    }
}
