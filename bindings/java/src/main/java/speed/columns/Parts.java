package speed.columns;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
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

    /** Where the values begin; -1 where they lie in {@code children}. */
    final int data;

    /** Where the body begins and ends. */
    final int start;

    final int end;
    /** What lies in it (C-9): items, keys and values, or fields. */
    final List<Parts> children;
    /** Of the fields of a struct. */
    final List<String> names;

    private final Place place;
    private final byte[] body;
    private long at;

    /** Where a whole body lies: what fills up its parts counts from there. */
    private record Place(byte[] bytes, int from, int until) {}

    /** Of a whole body, which lies among some bytes. */
    Parts(byte[] bytes, int from, int until) {
        this(new Place(bytes, from, until), from, 1, -1, new int[1]);
        if (end != until) {
            throw refused("is longer than its rows");
        }
    }

    /** Of a body in another one, which says its rows unless that is -1; {@code inner} counts all that lie in others. */
    private Parts(Place place, int start, int depth, long expectedRows, int[] inner) {
        this.place = place;
        this.start = start;
        body = place.bytes;
        at = start;
        take(Layout.HEADER_BYTES);
        ByteBuffer view = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
        kind = Kind.of(Byte.toUnsignedInt(body[start]));
        precision = Byte.toUnsignedInt(body[start + 2]);
        scale = Byte.toUnsignedInt(body[start + 3]);
        if (kind == null || Byte.toUnsignedInt(body[start + 1]) > 1 || !isScaled()) {
            throw refused("is of an unknown kind");
        }
        if (depth > Layout.MAX_DEPTH || depth > 1 && ++inner[0] > Layout.MAX_INNER) {
            throw refused("is nested too deep, or has too many others in it");
        }
        long count = Integer.toUnsignedLong(view.getInt(start + 4));
        if (expectedRows >= 0 && expectedRows != count) {
            throw refused("lies in another one with other rows than that says");
        }
        validity = body[start + 1] == 1 ? bits(count) : -1;
        offsets = kind.hasOffsets() ? take((count + 1) * Integer.BYTES) : -1;
        long last = kind.hasOffsets() ? Integer.toUnsignedLong(view.getInt(offsets + (int) count * Integer.BYTES)) : 0;
        data = kind.isNested() ? -1 : data(count, last);
        if (kind.hasOffsets()) {
            checkOffsets(view, count, last);
        }
        if (kind == Kind.UTF8) {
            checkText(data, (int) last);
        }
        names = kind == Kind.STRUCT ? names(depth + 1, inner) : List.of();
        children = new ArrayList<>();
        for (int child = 0; child < childCount(); child++) {
            Parts next = next(depth + 1, kind == Kind.STRUCT ? count : last, inner);
            if (kind == Kind.MAP && child == 0 && next.validity >= 0) {
                throw refused("has maps whose keys may be null");
            }
            children.add(next);
        }
        rows = (int) count; // so many are in the body
        end = (int) at;
    }

    private int childCount() {
        return switch (kind) {
            case LIST -> 1;
            case MAP -> 2;
            default -> names.size();
        };
    }

    private Parts next(int depth, long expectedRows, int[] inner) {
        Parts next = new Parts(place, (int) at, depth, expectedRows, inner);
        at = next.end;
        return next;
    }

    private List<String> names(int depth, int[] inner) {
        Parts named = next(depth, -1, inner);
        boolean areNames = named.kind == Kind.UTF8 && named.validity < 0;
        if (!areNames || named.rows == 0 || named.rows > Layout.MAX_INNER) {
            throw refused("has structs without names of fields, or with too many");
        }
        Set<String> names = new LinkedHashSet<>();
        for (int field = 0; field < named.rows; field++) {
            names.add(new String(body, named.valueStart(field), named.valueSize(field), StandardCharsets.UTF_8));
        }
        if (names.size() < named.rows) {
            throw refused("has structs with a field twice");
        }
        return List.copyOf(names);
    }

    /** Where a text or bytes begin. */
    int valueStart(int row) {
        return data + offset(row);
    }

    int valueSize(int row) {
        return offset(row + 1) - offset(row);
    }

    /** Where a row begins, in its data or its children. */
    int offset(int row) {
        return ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN).getInt(offsets + row * Integer.BYTES);
    }

    private int data(long count, long last) {
        if (kind.hasOffsets()) {
            return take(last);
        }
        return kind == Kind.BOOL ? bits(count) : take(kind.dataBytes(count));
    }

    private boolean isScaled() {
        if (kind == Kind.DECIMAL) {
            return precision >= 1 && precision <= Layout.MAX_PRECISION && scale <= precision;
        }
        return precision == 0 && scale == 0;
    }

    private int take(long size) {
        long end = at + size;
        long filled = place.from + Layout.filled(end - place.from);
        if (filled > place.until) {
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

    private void checkOffsets(ByteBuffer view, long rows, long last) {
        long before = 0;
        for (int row = 0; row <= rows; row++) {
            long offset = Integer.toUnsignedLong(view.getInt(offsets + row * Integer.BYTES));
            boolean isInside = kind == Kind.UTF8 && offset < last && (body[data + (int) offset] & 0xc0) == 0x80;
            if (offset < before || row == 0 && offset != 0 || offset > last || isInside) {
                throw refused("has offsets out of order or inside a character");
            }
            before = offset;
        }
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
