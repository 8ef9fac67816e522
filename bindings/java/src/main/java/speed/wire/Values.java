package speed.wire;

import java.math.BigInteger;
import java.nio.charset.CharacterCodingException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import speed.errors.UnserialisableException;

/**
 * A program's values as msgpack, by the type table of W-15; what has no representation is refused (W-17).
 *
 * <p>null, Boolean, the whole numbers and BigInteger, Float and Double, String, byte[], List, Map with keys of
 * text or integer, Instant. The other direction is {@link ValueReader}.
 */
public final class Values {
    /** Instants lie in the years 1 to 9999, which every language has. */
    static final long FIRST_SECOND = -62_135_596_800L;
    static final long LAST_SECOND = 253_402_300_799L;

    private static final int USUAL_BYTES = 512;
    private static final int MOST_BYTES = Limits.MAX_PAYLOAD_BYTES + USUAL_BYTES;
    private static final int SHORT_TEXT = 256;

    private final MessagePack out;

    private Values(MessagePack out) {
        this.out = out;
    }

    /**
     * The bytes of a value.
     *
     * @param what how the value is called in the path that an error names
     */
    public static byte[] encode(Object value, String what) {
        ByteSink sink = new ByteSink((int) Math.min(MOST_BYTES, USUAL_BYTES + bytesIn(value)));
        new Values(new MessagePack(sink)).write(value, what, Limits.MAX_VALUE_DEPTH);
        return sink.take();
    }

    /** The bytes in a value, if it holds some directly or as arguments: the sink need not grow around them. */
    private static long bytesIn(Object value) {
        if (value instanceof byte[] data) {
            return data.length;
        }
        long total = 0;
        if (value instanceof Map<?, ?> map) {
            for (Object member : map.values()) {
                total += member instanceof byte[] || member instanceof Map<?, ?> ? bytesIn(member) : 0;
            }
        }
        return total;
    }

    private void write(Object value, Object path, int depth) {
        if (value instanceof String text) {
            writeText(text, path);
        } else if (value instanceof Map<?, ?> map) {
            writeMap(map, path, deeper(depth, path));
        } else if (value instanceof byte[] data) {
            out.bytes(data);
        } else if (value instanceof List<?> items) {
            writeList(items, path, deeper(depth, path));
        } else {
            writeScalar(value, path);
        }
    }

    private void writeScalar(Object value, Object path) {
        if (value == null) {
            out.nil();
        } else if (value instanceof Boolean flag) {
            out.flag(flag);
        } else if (value instanceof Double || value instanceof Float) {
            out.real(((Number) value).doubleValue());
        } else if (value instanceof Instant instant) {
            writeInstant(instant, path);
        } else if (!writeInteger(value, path)) {
            throw new UnserialisableException(
                    path + " is of type " + value.getClass().getName() + ", which has no representation");
        }
    }

    private void writeInstant(Instant instant, Object path) {
        if (instant.getEpochSecond() < FIRST_SECOND || instant.getEpochSecond() > LAST_SECOND) {
            throw new UnserialisableException(path + " is an instant outside the years 1 to 9999");
        }
        out.instant(instant);
    }

    private boolean writeInteger(Object value, Object path) {
        if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
            out.integer(((Number) value).longValue());
            return true;
        }
        if (!(value instanceof BigInteger big)) {
            return false;
        }
        if (big.bitLength() < Long.SIZE) {
            out.integer(big.longValue());
        } else if (big.signum() > 0 && big.bitLength() == Long.SIZE) {
            out.unsigned64(big.longValue());
        } else {
            throw new UnserialisableException(path + " is an integer beyond 64 bits");
        }
        return true;
    }

    private void writeText(String text, Object path) {
        if (text.length() <= SHORT_TEXT && Utf8.isAscii(text)) {
            out.ascii(text);
            return;
        }
        try {
            out.text(Utf8.encode(text));
        } catch (CharacterCodingException loneSurrogate) {
            throw new UnserialisableException(path + " is text with a lone surrogate");
        }
    }

    private void writeMap(Map<?, ?> map, Object path, int depth) {
        out.map(map.size());
        for (Map.Entry<?, ?> member : map.entrySet()) {
            Object key = member.getKey();
            if (key instanceof String text) {
                writeText(text, path);
            } else if (!writeInteger(key, path)) {
                throw new UnserialisableException(path + " has a key of another type than text and integer");
            }
            write(member.getValue(), new Path(path, key, false), depth);
        }
    }

    private void writeList(List<?> items, Object path, int depth) {
        out.array(items.size());
        int index = 0;
        for (Object item : items) {
            write(item, new Path(path, index++, true), depth);
        }
    }

    private static int deeper(int depth, Object path) {
        if (depth == 0) {
            throw new UnserialisableException(path + " is nested deeper than " + Limits.MAX_VALUE_DEPTH);
        }
        return depth - 1;
    }

    /** The way to a part of a value, spelled only when an error names it. */
    private record Path(Object whole, Object part, boolean indexed) {
        @Override
        public String toString() {
            return indexed ? whole + "[" + part + "]" : whole + "." + part;
        }
    }
}
