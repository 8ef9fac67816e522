package speed.internal.wire;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import speed.columns.Column;
import speed.errors.UnserialisableException;

/**
 * A program's values as msgpack, by the table of types in wire.md; what has no representation is refused.
 *
 * <p>null, Boolean, the whole numbers and BigInteger, Float and Double, String, byte[], List, Map with keys of
 * text or integer, Instant, Column, the rest of a ByteBuffer as bytes, and what {@link Plain} makes one of these. The other direction is {@link ValueReader}.
 */
public final class Values {
    /** Instants lie in the years 1 to 9999, which every language has. */
    static final long FIRST_SECOND = -62_135_596_800L;

    static final long LAST_SECOND = 253_402_300_799L;

    private static final BigInteger TWO_64 = BigInteger.ONE.shiftLeft(64);
    private static final MessagePack.PackerConfig CONFIG =
            new MessagePack.PackerConfig().withBufferSize(1024).withStr8FormatSupport(true);

    private static final int COPIED_LATE_BYTES = 8 << 10;
    /** The JVM makes no longer array. */
    private static final int MOST_BYTES = Integer.MAX_VALUE - 8;

    private final MessageBufferPacker packer;
    /** What was written before a large value, and the value itself, in turn. */
    private final List<ByteBuffer> parts = new ArrayList<>();
    /** Items that lists and maps may still hold, inside each other or not. */
    private int itemsLeft = Limits.MAX_VALUE_ITEMS;

    private Values(MessageBufferPacker packer) {
        this.packer = packer;
    }

    /**
     * The bytes of a value.
     *
     * @param what how the value is called in the path that an error names
     */
    public static byte[] encode(Object value, String what) {
        try (MessageBufferPacker packer = CONFIG.newBufferPacker()) {
            Values values = new Values(packer);
            values.write(value, what, Limits.MAX_VALUE_DEPTH);
            return values.joined(what);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
    }

    /** Text as UTF-8 can carry it: lone surrogates become question marks. */
    public static String wellFormed(String text) {
        return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
    }

    /** The text of an error as it travels: nothing for null, and no longer than such a text may be. */
    public static String shortened(String text) {
        return shortened(text, Limits.MAX_ERROR_CHARACTERS);
    }

    /** The same, with another bound. */
    public static String shortened(String text, int characters) {
        if (text == null || text.codePointCount(0, text.length()) <= characters) {
            return text == null ? "" : text;
        }
        return text.substring(0, text.offsetByCodePoints(0, characters));
    }

    private void write(Object value, Object path, int depth) throws IOException {
        if (value instanceof String text) {
            writeText(text, path);
        } else if (value instanceof Map<?, ?> map) {
            writeMap(map, path, deeper(depth, path));
        } else if (value instanceof byte[] data) {
            packer.packBinaryHeader(data.length).addPayload(data);
        } else if (value instanceof List<?> items) {
            writeList(items, path, deeper(depth, path));
        } else if (!writeScalar(value, path)) {
            write(plain(value, path), path, depth);
        }
    }

    /** False for a value of none of these kinds. */
    private boolean writeScalar(Object value, Object path) throws IOException {
        if (value == null) {
            packer.packNil();
        } else if (value instanceof Boolean flag) {
            packer.packBoolean(flag);
        } else if (value instanceof Double || value instanceof Float) {
            packer.packDouble(((Number) value).doubleValue());
        } else if (value instanceof Instant instant) {
            writeInstant(instant, path);
        } else if (value instanceof Column column) {
            ByteBuffer body = column.body();
            packer.packExtensionTypeHeader((byte) Limits.COLUMN_EXTENSION, body.remaining());
            writeBytes(body);
        } else if (value instanceof ByteBuffer buffer) {
            packer.packBinaryHeader(buffer.remaining());
            writeBytes(buffer.duplicate());
        } else {
            return writeInteger(value, path);
        }
        return true;
    }

    /** Large ones are copied once, at the end. */
    private void writeBytes(ByteBuffer data) throws IOException {
        if (data.remaining() < COPIED_LATE_BYTES) {
            packer.addPayload(bytes(data));
            return;
        }
        parts.add(ByteBuffer.wrap(packer.toByteArray()));
        packer.clear();
        parts.add(data);
    }

    private byte[] joined(String what) {
        byte[] last = packer.toByteArray();
        if (parts.isEmpty()) {
            return last;
        }
        parts.add(ByteBuffer.wrap(last));
        long size = parts.stream().mapToLong(ByteBuffer::remaining).sum();
        if (size > MOST_BYTES) {
            throw new UnserialisableException(what + " takes more than " + MOST_BYTES + " bytes");
        }
        ByteBuffer all = ByteBuffer.allocate((int) size);
        parts.forEach(all::put);
        return all.array();
    }

    /** What a value of another type travels as. */
    private static Object plain(Object value, Object path) {
        Object plain = Plain.of(value, path);
        if (plain == value) {
            throw new UnserialisableException(
                    path + " is of type " + value.getClass().getName() + ", which has no representation");
        }
        return plain;
    }

    static byte[] bytes(ByteBuffer body) {
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        return bytes;
    }

    private void writeInstant(Instant instant, Object path) throws IOException {
        if (instant.getEpochSecond() < FIRST_SECOND || instant.getEpochSecond() > LAST_SECOND) {
            throw new UnserialisableException(path + " is an instant outside the years 1 to 9999");
        }
        packer.packTimestamp(instant);
    }

    private boolean writeInteger(Object value, Object path) throws IOException {
        if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
            packer.packLong(((Number) value).longValue());
            return true;
        }
        if (!(value instanceof BigInteger big)) {
            return false;
        }
        if (big.bitLength() >= Long.SIZE && (big.signum() < 0 || big.compareTo(TWO_64) >= 0)) {
            throw new UnserialisableException(path + " is an integer beyond 64 bits");
        }
        packer.packBigInteger(big);
        return true;
    }

    private void writeText(String text, Object path) throws IOException {
        if (isShortAscii(text)) {
            packer.packString(text);
            return;
        }
        try {
            var encoded = StandardCharsets.UTF_8.newEncoder().encode(java.nio.CharBuffer.wrap(text));
            packer.packRawStringHeader(encoded.remaining());
            packer.addPayload(encoded.array(), 0, encoded.remaining());
        } catch (CharacterCodingException loneSurrogate) {
            throw new UnserialisableException(path + " is text with a lone surrogate");
        }
    }

    private static boolean isShortAscii(String text) {
        if (text.length() > 256) {
            return false;
        }
        for (int index = 0; index < text.length(); index++) {
            if (text.charAt(index) > 127) {
                return false;
            }
        }
        return true;
    }

    private void writeMap(Map<?, ?> map, Object path, int depth) throws IOException {
        count(map.size(), path);
        packer.packMapHeader(map.size());
        for (Map.Entry<?, ?> member : map.entrySet()) {
            Object key = Plain.of(member.getKey(), path);
            if (key instanceof String text) {
                writeText(text, path);
            } else if (!writeInteger(key, path)) {
                throw new UnserialisableException(path + " has a key of another type than text and integer");
            }
            write(member.getValue(), new Path(path, key, false), depth);
        }
    }

    private void writeList(List<?> list, Object path, int depth) throws IOException {
        count(list.size(), path);
        packer.packArrayHeader(list.size());
        int index = 0;
        for (Object item : list) {
            write(item, new Path(path, index++, true), depth);
        }
    }

    private void count(int more, Object path) {
        itemsLeft -= more;
        if (itemsLeft < 0) {
            throw new UnserialisableException(path + " has too many items: a value holds at most "
                    + Limits.MAX_VALUE_ITEMS + " in all its lists and maps; send bytes or columns, or several values");
        }
    }

    private static int deeper(int depth, Object path) {
        if (depth == 0) {
            throw new UnserialisableException(path + " is nested deeper than " + Limits.MAX_VALUE_DEPTH);
        }
        return depth - 1;
    }

    /** The way to a part of a value, spelled only when an error names it. */
    record Path(Object whole, Object part, boolean indexed) {
        @Override
        public String toString() {
            return indexed ? whole + "[" + part + "]" : whole + "." + part;
        }
    }
}
