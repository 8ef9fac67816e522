package speed.columns;

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.DoubleBuffer;
import java.nio.LongBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import speed.columns.Kind.Layout;
import speed.errors.UnserialisableException;

/** Makes the body of a column. */
final class ColumnWriter {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    ColumnWriter(Kind kind, int rows) {
        this(kind, rows, false, 0, 0);
    }

    private ColumnWriter(Kind kind, int rows, boolean hasValidity, int precision, int scale) {
        ByteBuffer header = buffer(Layout.HEADER_BYTES);
        header.put((byte) kind.number())
                .put((byte) (hasValidity ? 1 : 0))
                .put((byte) precision)
                .put((byte) scale);
        out.writeBytes(header.putInt(rows).array());
    }

    /** The body of rows that may be null. */
    static byte[] write(Kind kind, List<?> rows, int precision, int scale) {
        boolean hasNulls = rows.stream().anyMatch(Objects::isNull);
        ColumnWriter writer = new ColumnWriter(kind, rows.size(), hasNulls, precision, scale);
        if (hasNulls) {
            writer.bits(rows.stream().map(Objects::nonNull).toList());
        }
        int row = 0;
        try {
            for (; row < rows.size(); row++) {
                check(kind, rows.get(row), precision, scale);
            }
        } catch (ArithmeticException | ClassCastException | CharacterCodingException misfit) {
            throw new UnserialisableException("row " + row + " does not fit into a column of " + kind);
        }
        return writer.values(kind, rows, scale).body();
    }

    ColumnWriter numbers(LongBuffer rows) {
        ByteBuffer part = buffer(rows.remaining() * Long.BYTES);
        part.asLongBuffer().put(rows);
        return part(part.array());
    }

    ColumnWriter numbers(DoubleBuffer rows) {
        ByteBuffer part = buffer(rows.remaining() * Double.BYTES);
        part.asDoubleBuffer().put(rows);
        return part(part.array());
    }

    byte[] body() {
        return out.toByteArray();
    }

    /** Whether a row fits: throws if it does not. */
    private static void check(Kind kind, Object row, int precision, int scale) throws CharacterCodingException {
        if (row == null) {
            return;
        }
        switch (kind) {
            case INT64 -> Objects.requireNonNull((Long) row);
            case FLOAT64 -> Objects.requireNonNull((Double) row);
            case BOOL -> Objects.requireNonNull((Boolean) row);
            case UTF8 -> StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap((String) row));
            case BINARY -> Objects.requireNonNull((byte[]) row);
            case TIMESTAMP -> microseconds(row);
            case DECIMAL -> {
                if (((BigDecimal) row).setScale(scale).precision() > precision) {
                    throw new ArithmeticException("more digits than " + precision);
                }
            }
        }
    }

    private ColumnWriter values(Kind kind, List<?> rows, int scale) {
        return switch (kind) {
            case INT64 ->
                numbers(LongBuffer.wrap(rows.stream()
                        .mapToLong(row -> row == null ? 0 : (Long) row)
                        .toArray()));
            case FLOAT64 ->
                numbers(DoubleBuffer.wrap(rows.stream()
                        .mapToDouble(row -> row == null ? 0 : (Double) row)
                        .toArray()));
            case BOOL -> bits(rows.stream().map(Boolean.TRUE::equals).toList());
            case UTF8 -> strings(rows.stream().map(row -> bytes((String) row)).toList());
            case BINARY ->
                strings(rows.stream()
                        .map(row -> row == null ? new byte[0] : (byte[]) row)
                        .toList());
            case TIMESTAMP ->
                numbers(LongBuffer.wrap(
                        rows.stream().mapToLong(ColumnWriter::microseconds).toArray()));
            case DECIMAL -> decimals(rows, scale);
        };
    }

    private static byte[] bytes(String row) {
        return row == null ? new byte[0] : row.getBytes(StandardCharsets.UTF_8);
    }

    /** Rounded down. */
    private static long microseconds(Object row) {
        if (row == null) {
            return 0;
        }
        Instant instant = (Instant) row;
        long microseconds = instant.getNano() / 1000;
        return instant.getEpochSecond() >= 0
                ? Math.addExact(Math.multiplyExact(instant.getEpochSecond(), 1_000_000L), microseconds)
                : Math.addExact(Math.multiplyExact(instant.getEpochSecond() + 1, 1_000_000L), microseconds - 1_000_000);
    }

    private ColumnWriter bits(List<Boolean> bits) {
        byte[] part = new byte[(int) Layout.bitBytes(bits.size())];
        for (int row = 0; row < bits.size(); row++) {
            part[row / 8] |= (byte) ((bits.get(row) ? 1 : 0) << row % 8);
        }
        return part(part);
    }

    private ColumnWriter strings(List<byte[]> rows) {
        ByteBuffer offsets = buffer((rows.size() + 1) * Integer.BYTES).putInt(0);
        ByteArrayOutputStream data = new ByteArrayOutputStream();
        for (byte[] row : rows) {
            data.writeBytes(row);
            offsets.putInt(data.size());
        }
        return part(offsets.array()).part(data.toByteArray());
    }

    private ColumnWriter decimals(List<?> rows, int scale) {
        ByteBuffer part = buffer(rows.size() * Layout.DECIMAL_BYTES);
        for (Object row : rows) {
            BigInteger number = row == null
                    ? BigInteger.ZERO
                    : ((BigDecimal) row).setScale(scale).unscaledValue();
            part.putLong(number.longValue())
                    .putLong(number.shiftRight(Long.SIZE).longValue());
        }
        return part(part.array());
    }

    private ColumnWriter part(byte[] part) {
        out.writeBytes(part);
        out.writeBytes(new byte[(int) (Layout.filled(part.length) - part.length)]);
        return this;
    }

    private static ByteBuffer buffer(int size) {
        return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    }
}
