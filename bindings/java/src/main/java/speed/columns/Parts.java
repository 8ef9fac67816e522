package speed.columns;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import speed.columns.Kind.Layout;
import speed.errors.WireException;

/** Where the parts of a body lie, found by checking it. */
final class Parts {
    final Kind kind;
    final int precision;
    final int scale;
    final int rows;
    /** Where validity begins, -1 where no row is null. */
    final int validity;
    /** Where the offsets begin; not for all kinds. */
    final int offsets;

    final int data;

    private final byte[] body;
    private long at = Layout.HEADER_BYTES;

    Parts(byte[] body) {
        this.body = body;
        if (body.length < Layout.HEADER_BYTES) {
            throw refused("is shorter than its header");
        }
        ByteBuffer view = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
        kind = Kind.of(Byte.toUnsignedInt(body[0]));
        precision = Byte.toUnsignedInt(body[2]);
        scale = Byte.toUnsignedInt(body[3]);
        if (kind == null || Byte.toUnsignedInt(body[1]) > 1 || !isScaled()) {
            throw refused("is of an unknown kind");
        }
        long count = Integer.toUnsignedLong(view.getInt(4));
        validity = body[1] == 1 ? bits(count) : -1;
        offsets = kind.hasOffsets() ? take((count + 1) * Integer.BYTES) : -1;
        data = kind.hasOffsets() ? strings(view, count) : kind == Kind.BOOL ? bits(count) : take(kind.dataBytes(count));
        if (at != body.length) {
            throw refused("is longer than its rows");
        }
        rows = (int) count; // so many are in the body
    }

    private boolean isScaled() {
        if (kind == Kind.DECIMAL) {
            return precision >= 1 && precision <= Layout.MAX_PRECISION && scale <= precision;
        }
        return precision == 0 && scale == 0;
    }

    private int take(long size) {
        long end = at + size;
        long filled = Layout.filled(end);
        if (filled > body.length) {
            throw refused("is shorter than its rows");
        }
        for (long index = end; index < filled; index++) {
            if (body[(int) index] != 0) {
                throw refused("has bytes between its parts");
            }
        }
        int start = (int) at;
        at = filled;
        return start;
    }

    private int bits(long rows) {
        int start = take(Layout.bitBytes(rows));
        if (rows % 8 != 0 && Byte.toUnsignedInt(body[start + (int) (rows / 8)]) >> rows % 8 != 0) {
            throw refused("has bits behind its last row");
        }
        return start;
    }

    private int strings(ByteBuffer view, long rows) {
        long last = Integer.toUnsignedLong(view.getInt(offsets + (int) rows * Integer.BYTES));
        int start = take(last);
        long before = 0;
        for (int row = 0; row <= rows; row++) {
            long offset = Integer.toUnsignedLong(view.getInt(offsets + row * Integer.BYTES));
            boolean isInside = kind == Kind.UTF8 && offset < last && (body[start + (int) offset] & 0xc0) == 0x80;
            if (offset < before || row == 0 && offset != 0 || offset > last || isInside) {
                throw refused("has offsets out of order or inside a character");
            }
            before = offset;
        }
        if (kind == Kind.UTF8) {
            checkText(start, (int) last);
        }
        return start;
    }

    private void checkText(int start, int size) {
        int plain = ascii(ByteBuffer.wrap(body, start, size).slice());
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body, start + plain, size - plain));
        } catch (CharacterCodingException broken) {
            throw refused("has text that is not UTF-8");
        }
    }

    /** How many bytes at the beginning are ASCII, in steps of eight: most text is, and need not be decoded. */
    private static int ascii(ByteBuffer text) {
        int at = 0;
        while (at + Long.BYTES <= text.limit() && (text.getLong(at) & 0x8080808080808080L) == 0) {
            at += Long.BYTES;
        }
        return at;
    }

    private static WireException refused(String why) {
        return new WireException("BAD_PAYLOAD", "a column " + why);
    }
}
