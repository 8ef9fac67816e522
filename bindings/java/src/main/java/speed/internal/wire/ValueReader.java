package speed.internal.wire;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.msgpack.core.ExtensionTypeHeader;
import org.msgpack.core.MessageFormat;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePackException;
import org.msgpack.core.MessageUnpacker;
import speed.columns.Column;
import speed.errors.WireException;

/**
 * msgpack bytes as values: null, Boolean, Long (BigInteger above 2^63−1), Double, String,
 * byte[], List, LinkedHashMap, Instant, Column. A length is believed only as far as there are bytes. Large columns lie in
 * the data that was decoded; who asks for views gets large bytes as a read-only ByteBuffer over it.
 */
public final class ValueReader {
    private static final int TIMESTAMP = -1;
    /** Bytes of which a view is given: a copy of fewer costs less than what a view keeps. */
    private static final int VIEWED_BYTES = 32 << 10;

    private final MessageUnpacker unpacker;
    private final int size;
    private final boolean views;
    /** Bytes that arrays and maps may still announce, inside each other or not: each item has one at least. */
    private long unannounced;
    /** Items that arrays and maps may still hold, inside each other or not. */
    private int itemsLeft = Limits.MAX_VALUE_ITEMS;

    private ValueReader(byte[] data, int from, int length) {
        this(data, from, length, false);
    }

    private ValueReader(byte[] data, int from, int length, boolean views) {
        this.views = views;
        unpacker = MessagePack.newDefaultUnpacker(data, from, length);
        size = length;
        unannounced = length;
    }

    /**
     * The members of a map that stand before one of its keys.
     *
     * @param at where the value of that key begins
     */
    record Head(Map<Object, Object> fields, int at) {}

    /** The members before the last key of a map, which lie within some first bytes; BAD_PAYLOAD for anything else. */
    static Head decodeHead(byte[] data, String lastKey, int mostBytes, String what) {
        ValueReader reader = new ValueReader(data, 0, Math.min(data.length, mostBytes));
        try {
            Map<Object, Object> fields = new LinkedHashMap<>();
            for (int left = reader.unpacker.unpackMapHeader(); left > 0; left--) {
                Object key = reader.key();
                if (lastKey.equals(key) && left == 1) {
                    return new Head(fields, (int) reader.unpacker.getTotalReadBytes());
                }
                if (lastKey.equals(key) || fields.containsKey(key)) {
                    throw refused("a key stands twice, or something behind " + lastKey);
                }
                fields.put(key, reader.value(Limits.MAX_VALUE_DEPTH - 1));
            }
            throw refused(what + " without " + lastKey);
        } catch (IOException | MessagePackException | DateTimeException broken) {
            throw refused("the head of a " + what + " is no map, or above " + mostBytes + " bytes");
        }
    }

    /** The text that a map begins with, if it has this key; null if it begins with anything else. */
    static String firstText(byte[] data, String key, int mostBytes) {
        ValueReader reader = new ValueReader(data, 0, Math.min(data.length, mostBytes));
        try {
            boolean found = reader.unpacker.unpackMapHeader() > 0 && key.equals(reader.value(0));
            return found && reader.value(0) instanceof String text ? text : null;
        } catch (IOException | MessagePackException | DateTimeException | WireException broken) {
            return null;
        }
    }

    /** The one value in the data; BAD_PAYLOAD for anything else. */
    public static Object decode(byte[] data, String what) {
        return decode(data, 0, data.length, what);
    }

    /** The one value in a part of the data; BAD_PAYLOAD for anything else. */
    public static Object decode(byte[] data, int from, int length, String what) {
        return decode(data, from, length, what, 0, false);
    }

    /** The same of a value that lies in some containers already; with {@code views} its large bytes stay where they are. */
    static Object decode(byte[] data, int from, int length, String what, int depth, boolean views) {
        ValueReader reader = new ValueReader(data, from, length, views);
        try {
            Object value = reader.value(Limits.MAX_VALUE_DEPTH - depth);
            if (reader.remaining() != 0) {
                throw refused("bytes after the value");
            }
            return value;
        } catch (IOException | MessagePackException | DateTimeException broken) {
            throw new WireException("BAD_PAYLOAD", what + " is not one msgpack value");
        }
    }

    /** The map in the data; BAD_PAYLOAD for any other value. */
    public static Map<Object, Object> decodeMap(byte[] data, String what) {
        return decodeMap(data, what, false);
    }

    /** The same; with {@code views} its large bytes stay where they are. */
    static Map<Object, Object> decodeMap(byte[] data, String what, boolean views) {
        Object value = decode(data, 0, data.length, what, 0, views);
        if (!(value instanceof Map<?, ?>)) {
            throw refused(what + " is no map");
        }
        @SuppressWarnings("unchecked")
        Map<Object, Object> map = (Map<Object, Object>) value;
        return map;
    }

    private long remaining() {
        return size - unpacker.getTotalReadBytes();
    }

    private Object value(int depth) throws IOException {
        MessageFormat format = unpacker.getNextFormat();
        return switch (format.getValueType()) {
            case NIL -> {
                unpacker.unpackNil();
                yield null;
            }
            case BOOLEAN -> unpacker.unpackBoolean();
            case INTEGER -> integer(format);
            case FLOAT -> unpacker.unpackDouble();
            case STRING -> text();
            case BINARY -> binary(unpacker.unpackBinaryHeader());
            case ARRAY -> array(deeper(depth));
            case MAP -> map(deeper(depth));
            case EXTENSION -> extension();
        };
    }

    private Object integer(MessageFormat format) throws IOException {
        if (format != MessageFormat.UINT64) {
            return unpacker.unpackLong();
        }
        BigInteger big = unpacker.unpackBigInteger();
        return big.bitLength() < Long.SIZE ? (Object) big.longValue() : big;
    }

    private String text() throws IOException {
        byte[] encoded = bytes(unpacker.unpackRawStringHeader());
        for (byte one : encoded) {
            if (one < 0) {
                return utf8(encoded);
            }
        }
        return new String(encoded, StandardCharsets.ISO_8859_1);
    }

    /** The text of UTF-8 bytes; other bytes are refused, not replaced. */
    private static String utf8(byte[] encoded) {
        try {
            CharBuffer decoded = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(encoded));
            return decoded.toString();
        } catch (CharacterCodingException broken) {
            throw refused("text is not UTF-8");
        }
    }

    private Object binary(int length) throws IOException {
        if (!views || length < VIEWED_BYTES) {
            return bytes(length);
        }
        checkLength(length);
        return unpacker.readPayloadAsReference(length).sliceAsByteBuffer().asReadOnlyBuffer();
    }

    private byte[] bytes(int length) throws IOException {
        checkLength(length);
        return unpacker.readPayload(length);
    }

    private void checkLength(int length) {
        if (length < 0 || length > remaining()) {
            throw refused("a length exceeds the bytes at hand");
        }
    }

    private List<Object> array(int depth) throws IOException {
        int count = counted(unpacker.unpackArrayHeader(), 1);
        List<Object> items = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            items.add(value(depth));
        }
        return items;
    }

    private Map<Object, Object> map(int depth) throws IOException {
        int count = counted(unpacker.unpackMapHeader(), 2);
        Map<Object, Object> members = new LinkedHashMap<>();
        for (int index = 0; index < count; index++) {
            members.put(key(), value(depth));
        }
        return members;
    }

    private Object key() throws IOException {
        Object key = value(0);
        if (!(key instanceof String || key instanceof Long || key instanceof BigInteger)) {
            throw refused("a key is neither text nor integer");
        }
        return key;
    }

    private int counted(int count, int bytesEach) {
        long bytes = (long) count * bytesEach;
        unannounced -= bytes;
        if (count < 0 || unannounced < 0 || bytes > remaining()) {
            throw refused("a length exceeds the bytes at hand");
        }
        itemsLeft -= count;
        if (itemsLeft < 0) {
            throw refused("more than " + Limits.MAX_VALUE_ITEMS + " items in lists and maps");
        }
        return count;
    }

    private Object extension() throws IOException {
        ExtensionTypeHeader header = unpacker.unpackExtensionTypeHeader();
        boolean isColumn = header.getType() == Limits.COLUMN_EXTENSION;
        return isColumn ? column(header.getLength()) : instant(header);
    }

    /** A large one is read where it lies. */
    private Column column(int length) throws IOException {
        if (length < VIEWED_BYTES) {
            return Column.parse(bytes(length));
        }
        checkLength(length);
        return Column.parse(unpacker.readPayloadAsReference(length).sliceAsByteBuffer());
    }

    private Instant instant(ExtensionTypeHeader header) throws IOException {
        int length = header.getLength();
        if (header.getType() != TIMESTAMP || length != 4 && length != 8 && length != 12) {
            throw refused("an extension that is no timestamp");
        }
        ByteBuffer data = ByteBuffer.wrap(bytes(length));
        if (length == 4) {
            return Instant.ofEpochSecond(Integer.toUnsignedLong(data.getInt()));
        }
        long packed = length == 8 ? data.getLong() : 0;
        long nanoseconds = length == 8 ? packed >>> 34 : Integer.toUnsignedLong(data.getInt());
        long seconds = length == 8 ? packed & (1L << 34) - 1 : data.getLong();
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
