package speed.internal.wire;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Writes the records of one protobuf message, in the order of the calls; what is null, 0 or empty is not written. */
public final class RecordWriter {
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
