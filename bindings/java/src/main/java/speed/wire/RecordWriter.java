package speed.wire;

import java.nio.charset.CharacterCodingException;
import speed.errors.WireException;

/** Writes protobuf records, shortest varints only (M-2, M-4). Not thread-safe. */
final class RecordWriter {
    private static final int SEVEN_BITS = 0x7F;

    private final ByteSink out;

    RecordWriter(ByteSink out) {
        this.out = out;
    }

    /** A number; also an enum. */
    void number(int field, long number) {
        varint((long) field << 3 | RecordWalk.VARINT);
        varint(number);
    }

    /** A text; null is not written. */
    void text(int field, String text) {
        if (text == null) {
            return;
        }
        if (Utf8.isAscii(text)) {
            begin(field, text.length());
            out.putAscii(text);
        } else {
            bytes(field, utf8(field, text));
        }
    }

    void bytes(int field, byte[] data) {
        begin(field, data.length);
        out.put(data);
    }

    /** A nested message with what is written meanwhile; an empty one is not written. */
    void message(int field, Runnable content) {
        int at = out.length();
        content.run();
        int length = out.length() - at;
        if (length > 0) {
            prefix(at, (long) field << 3 | RecordWalk.LENGTH_DELIMITED, length);
        }
    }

    /** Begins a record whose bytes are written next. */
    void begin(int field, int length) {
        varint((long) field << 3 | RecordWalk.LENGTH_DELIMITED);
        varint(length);
    }

    /** How many bytes a record takes whose value has so many. */
    static int recordBytes(int field, int length) {
        return varintBytes((long) field << 3) + varintBytes(length) + length;
    }

    private static byte[] utf8(int field, String text) {
        try {
            return Utf8.encode(text);
        } catch (CharacterCodingException loneSurrogate) {
            throw new WireException("BAD_MESSAGE", "records: field " + field + " is text with a lone surrogate");
        }
    }

    private void prefix(int at, long tag, int length) {
        int tagBytes = varintBytes(tag);
        out.insert(at, tagBytes + varintBytes(length));
        set(at, tag);
        set(at + tagBytes, length);
    }

    private void set(int at, long number) {
        long left = number;
        int place = at;
        for (; left > SEVEN_BITS; left >>>= 7) {
            out.set(place++, (int) left & SEVEN_BITS | 0x80);
        }
        out.set(place, (int) left);
    }

    private void varint(long number) {
        long left = number;
        for (; (left & ~SEVEN_BITS) != 0; left >>>= 7) {
            out.put((int) left & SEVEN_BITS | 0x80);
        }
        out.put((int) left);
    }

    private static int varintBytes(long number) {
        return Math.max(1, (Long.SIZE - Long.numberOfLeadingZeros(number) + 6) / 7);
    }
}
