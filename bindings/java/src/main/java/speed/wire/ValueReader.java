package speed.wire;

import java.math.BigInteger;
import java.nio.charset.CharacterCodingException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.errors.WireException;

/**
 * MessagePack bytes as values (W-15, W-16): null, Boolean, Long (BigInteger above 2^63−1), Double, String,
 * byte[], List, LinkedHashMap, Instant. A length is believed only as far as there are bytes.
 */
public final class ValueReader {
    private static final int TIMESTAMP = -1;
    private static final int USUAL_MEMBERS = 16;
    private static final long LOW_34_BITS = (1L << 34) - 1;
    private static final BigInteger TWO_64 = BigInteger.ONE.shiftLeft(Long.SIZE);

    private final byte[] data;
    private final int end;
    private int at;

    private ValueReader(byte[] data, int from, int length) {
        this.data = data;
        at = from;
        end = from + length;
    }

    /** The one value in the data; BAD_PAYLOAD for anything else. */
    public static Object decode(byte[] data, String what) {
        return decode(data, 0, data.length, what);
    }

    /** The one value in a part of the data; BAD_PAYLOAD, with the name of the whole, for anything else. */
    public static Object decode(byte[] data, int from, int length, String what) {
        ValueReader reader = new ValueReader(data, from, length);
        Object value = reader.value(Limits.MAX_VALUE_DEPTH);
        if (reader.at != reader.end) {
            throw refused(what + ": bytes after the value");
        }
        return value;
    }

    /** The map in the data; BAD_PAYLOAD for any other value. */
    public static Map<Object, Object> decodeMap(byte[] data, String what) {
        Object value = decode(data, what);
        if (!(value instanceof Map<?, ?>)) {
            throw refused(what + " is no map");
        }
        @SuppressWarnings("unchecked")
        Map<Object, Object> map = (Map<Object, Object>) value;
        return map;
    }

    /** The first byte of a value says its kind and length, or holds both and a small value. */
    private Object value(int depth) {
        int first = (int) unsigned(1);
        return switch (first >> 4) {
            case 0x0, 0x1, 0x2, 0x3, 0x4, 0x5, 0x6, 0x7 -> (long) first;
            case 0x8 -> map(first & 0xF, deeper(depth));
            case 0x9 -> array(first & 0xF, deeper(depth));
            case 0xA, 0xB -> text(first & 0x1F);
            case 0xC -> scalar(first);
            case 0xD -> sized(first, depth);
            default -> (long) (byte) first;
        };
    }

    private Object scalar(int first) {
        return switch (first) {
            case 0xC0 -> null;
            case 0xC2 -> false;
            case 0xC3 -> true;
            case 0xC4, 0xC5, 0xC6 -> bytes(unsigned(1 << first - 0xC4));
            case 0xC7, 0xC8, 0xC9 -> instant(unsigned(1 << first - 0xC7));
            case 0xCA -> (double) Float.intBitsToFloat((int) unsigned(4));
            case 0xCB -> Double.longBitsToDouble(unsigned(8));
            case 0xCC, 0xCD, 0xCE -> unsigned(1 << first - 0xCC);
            case 0xCF -> natural(unsigned(8));
            default -> throw refused("0xC1 begins no value");
        };
    }

    private Object sized(int first, int depth) {
        return switch (first) {
            case 0xD0 -> (long) (byte) unsigned(1);
            case 0xD1 -> (long) (short) unsigned(2);
            case 0xD2 -> (long) (int) unsigned(4);
            case 0xD3 -> unsigned(8);
            case 0xD9, 0xDA, 0xDB -> text(unsigned(1 << first - 0xD9));
            case 0xDC, 0xDD -> array(unsigned(2 << first - 0xDC), deeper(depth));
            case 0xDE, 0xDF -> map(unsigned(2 << first - 0xDE), deeper(depth));
            default -> instant(1 << first - 0xD4);
        };
    }

    /** The next bytes as a number, big-endian; with eight of them the sign is the caller's matter. */
    private long unsigned(int size) {
        int from = skip(size, 1);
        long number = 0;
        for (int index = from; index < at; index++) {
            number = number << 8 | data[index] & 0xFF;
        }
        return number;
    }

    /** Passes so many bytes, if they are there; returns where they begin. */
    private int skip(long count, int bytesEach) {
        int from = at;
        at += room(count, bytesEach) * bytesEach;
        return from;
    }

    /** A count that was read, if so many can be there. */
    private int room(long count, int bytesEach) {
        if (count > (end - at) / bytesEach) {
            throw refused("a length exceeds the bytes at hand");
        }
        return (int) count;
    }

    private static Object natural(long bits) {
        return bits >= 0 ? (Object) bits : BigInteger.valueOf(bits).add(TWO_64);
    }

    private String text(long length) {
        int from = skip(length, 1);
        try {
            return Utf8.decode(data, from, at - from);
        } catch (CharacterCodingException broken) {
            throw refused("text is not UTF-8");
        }
    }

    private byte[] bytes(long length) {
        int from = skip(length, 1);
        return Arrays.copyOfRange(data, from, at);
    }

    private List<Object> array(long claimed, int depth) {
        int count = room(claimed, 1);
        List<Object> items = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            items.add(value(depth));
        }
        return items;
    }

    private Map<Object, Object> map(long claimed, int depth) {
        int count = room(claimed, 2);
        Map<Object, Object> members = new LinkedHashMap<>(Math.min(2 * count, USUAL_MEMBERS));
        for (int index = 0; index < count; index++) {
            Object key = value(0);
            if (!(key instanceof String || key instanceof Long || key instanceof BigInteger)) {
                throw refused("a key is neither text nor integer");
            }
            members.put(key, value(depth));
        }
        return members;
    }

    private Instant instant(long length) {
        if ((byte) unsigned(1) != TIMESTAMP || length != 4 && length != 8 && length != 12) {
            throw refused("an extension that is no timestamp");
        }
        if (length == 4) {
            return Instant.ofEpochSecond(unsigned(4));
        }
        long packed = length == 8 ? unsigned(8) : 0;
        long nanoseconds = length == 8 ? packed >>> 34 : unsigned(4);
        long seconds = length == 8 ? packed & LOW_34_BITS : unsigned(8);
        if (nanoseconds > 999_999_999 || seconds < Values.FIRST_SECOND || seconds > Values.LAST_SECOND) {
            throw refused("a timestamp with too many nanoseconds, or outside the years 1 to 9999");
        }
        return Instant.ofEpochSecond(seconds, nanoseconds);
    }

    private static int deeper(int depth) {
        if (depth == 0) {
            throw refused("nested too deep, or a container as a key");
        }
        return depth - 1;
    }

    private static WireException refused(String what) {
        return new WireException("BAD_PAYLOAD", what);
    }
}
