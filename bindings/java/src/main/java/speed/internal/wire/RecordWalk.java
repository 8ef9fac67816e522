package speed.internal.wire;

import java.util.Arrays;
import speed.errors.WireException;

/** Walks the records of one protobuf message and finds where each field lies; a malformed record is refused at any depth. */
public final class RecordWalk {
    public static final int VARINT = 0;
    public static final int FIXED64 = 1;
    public static final int LENGTH_DELIMITED = 2;
    public static final int FIXED32 = 5;
    private static final int MAX_TAG_BYTES = 5;
    private static final int MAX_LENGTH_BYTES = 5;
    private static final int MAX_VARINT_BYTES = 10;

    final byte[] data;
    private final int end;
    private int at;

    /** Of the present record: its number and wire type, where its value begins, and the value of a varint. */
    public int field;

    public int type;
    public int value;
    public long number;

    public RecordWalk(byte[] data, int from, int to) {
        this.data = data;
        this.at = from;
        this.end = to;
    }

    /** Where the present record ends. */
    public int next() {
        return at;
    }

    /** A walk over the message that is the present record's value. */
    RecordWalk inside() {
        return new RecordWalk(data, value, at);
    }

    /** A copy of the present record's value. */
    byte[] copy() {
        return Arrays.copyOfRange(data, value, at);
    }

    boolean is(int wantedField) {
        return field == wantedField && type == LENGTH_DELIMITED;
    }

    /** Goes to the next record; false after the last one. BAD_MESSAGE for anything that is no record. */
    public boolean advance() {
        if (at == end) {
            return false;
        }
        long tag = varint(MAX_TAG_BYTES);
        field = (int) Math.min(tag >>> 3, Integer.MAX_VALUE);
        type = (int) tag & 7;
        if (field == 0 || field >= 1 << 29) {
            throw broken("a field number out of range");
        }
        value = at;
        long length = switch (type) {
            case VARINT -> {
                number = varint(MAX_VARINT_BYTES);
                yield 0;
            }
            case FIXED32 -> 4;
            case FIXED64 -> 8;
            case LENGTH_DELIMITED -> {
                long claimed = varint(MAX_LENGTH_BYTES);
                value = at;
                yield claimed;
            }
            default -> throw broken("a wire type that is never written");
        };
        if (length < 0 || length > end - at) {
            throw broken("a record is truncated");
        }
        at += (int) length;
        return true;
    }

    private long varint(int most) {
        long result = 0;
        for (int count = 0; count < most && at < end; count++) {
            byte one = data[at++];
            result |= (one & 0x7FL) << 7 * count;
            if (one >= 0) {
                return result;
            }
        }
        throw broken("a varint is truncated or too long");
    }

    private static WireException broken(String what) {
        return new WireException("BAD_MESSAGE", "records: " + what);
    }
}
