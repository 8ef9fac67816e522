package speed.columns;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import speed.columns.Kind.Layout;

/**
 * Many values of one kind side by side, as they travel (registry_spec/columns.md). Immutable, so that threads may share
 * it; numbers are read where they lie, without a copy.
 */
public final class Column {
    private final byte[] body;
    private final Parts parts;

    private Column(byte[] body) {
        this.body = body;
        this.parts = new Parts(body);
    }

    /**
     * Reads a column.
     *
     * @param body the bytes as they travel; not to be changed afterwards
     * @return the column over these bytes
     * @throws speed.errors.WireException BAD_PAYLOAD if they are no column
     */
    public static Column parse(byte[] body) {
        return new Column(body);
    }

    /**
     * A column of whole numbers, none of them null.
     *
     * @param rows its values
     * @return the column
     */
    public static Column of(long... rows) {
        return new Column(new ColumnWriter(Kind.INT64, rows.length)
                .numbers(LongBuffer.wrap(rows))
                .body());
    }

    /**
     * A column of numbers, none of them null.
     *
     * @param rows its values
     * @return the column
     */
    public static Column of(double... rows) {
        return new Column(new ColumnWriter(Kind.FLOAT64, rows.length)
                .numbers(DoubleBuffer.wrap(rows))
                .body());
    }

    /**
     * A column of rows that may be null, of any kind but DECIMAL.
     *
     * @param kind of all rows
     * @param rows its values, of the class that {@link Kind} names
     * @return the column
     * @throws speed.errors.UnserialisableException naming the first row that does not fit
     */
    public static Column of(Kind kind, List<?> rows) {
        return new Column(ColumnWriter.write(kind, rows, 0, 0));
    }

    /**
     * A column of decimals that may be null.
     *
     * @param precision digits, 1 to 38
     * @param scale digits behind the point, 0 to the precision
     * @param rows its values
     * @return the column
     * @throws speed.errors.UnserialisableException naming the first row that does not fit without rounding
     */
    public static Column decimals(int precision, int scale, List<BigDecimal> rows) {
        return new Column(ColumnWriter.write(Kind.DECIMAL, rows, precision, scale));
    }

    /**
     * What its rows are.
     *
     * @return the kind
     */
    public Kind kind() {
        return parts.kind;
    }

    /**
     * How many rows there are.
     *
     * @return at least 0
     */
    public int rows() {
        return parts.rows;
    }

    /**
     * Digits of a decimal.
     *
     * @return 1 to 38, or 0 for other kinds
     */
    public int precision() {
        return parts.precision;
    }

    /**
     * Digits behind the point of a decimal.
     *
     * @return 0 to the precision
     */
    public int scale() {
        return parts.scale;
    }

    /**
     * Whether a row is null; what the buffers hold for it then has no meaning.
     *
     * @param row 0 to rows − 1
     * @return true if it is
     */
    public boolean isNull(int row) {
        return parts.validity >= 0 && !Layout.bit(body, parts.validity, row);
    }

    /**
     * All rows of INT64 or TIMESTAMP (microseconds since 1970), where they lie.
     *
     * @return a read-only view
     * @throws WrongKindException for another kind
     */
    public LongBuffer longs() {
        if (parts.kind != Kind.TIMESTAMP) {
            expect(Kind.INT64);
        }
        return data(Long.BYTES).asLongBuffer();
    }

    /**
     * All rows of FLOAT64, where they lie.
     *
     * @return a read-only view
     * @throws WrongKindException for another kind
     */
    public DoubleBuffer doubles() {
        expect(Kind.FLOAT64);
        return data(Double.BYTES).asDoubleBuffer();
    }

    /**
     * One row.
     *
     * @param row 0 to rows − 1
     * @return a value of the class that {@link Kind} names, or null
     */
    public Object get(int row) {
        if (isNull(row)) {
            return null;
        }
        return switch (parts.kind) {
            case INT64 -> longs().get(row);
            case FLOAT64 -> doubles().get(row);
            case BOOL -> Layout.bit(body, parts.data, row);
            case UTF8 -> new String(body, start(row), start(row + 1) - start(row), StandardCharsets.UTF_8);
            case BINARY -> Arrays.copyOfRange(body, start(row), start(row + 1));
            case TIMESTAMP -> Instant.EPOCH.plus(longs().get(row), ChronoUnit.MICROS);
            case DECIMAL -> decimal(row);
        };
    }

    /**
     * All rows.
     *
     * @return values of the class that {@link Kind} names, or null
     */
    public List<Object> values() {
        List<Object> values = new ArrayList<>(parts.rows);
        for (int row = 0; row < parts.rows; row++) {
            values.add(get(row));
        }
        return values;
    }

    /**
     * The column as it travels.
     *
     * @return a read-only view
     */
    public ByteBuffer body() {
        return ByteBuffer.wrap(body).asReadOnlyBuffer();
    }

    private ByteBuffer data(int bytesEach) {
        return ByteBuffer.wrap(body, parts.data, parts.rows * bytesEach)
                .slice()
                .asReadOnlyBuffer()
                .order(ByteOrder.LITTLE_ENDIAN);
    }

    private int start(int row) {
        ByteBuffer view = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
        return parts.data + view.getInt(parts.offsets + row * Integer.BYTES);
    }

    private BigDecimal decimal(int row) {
        byte[] bigEndian = new byte[Layout.DECIMAL_BYTES];
        for (int index = 0; index < bigEndian.length; index++) {
            bigEndian[index] = body[parts.data + (row + 1) * bigEndian.length - 1 - index];
        }
        return new BigDecimal(new BigInteger(bigEndian), parts.scale);
    }

    private void expect(Kind kind) {
        if (parts.kind != kind) {
            throw new WrongKindException(this, kind, parts.kind);
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Column column && Arrays.equals(body, column.body);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(body);
    }

    /** Says the kind and the number of rows, never a value. */
    @Override
    public String toString() {
        return "Column[" + parts.kind + ", rows=" + parts.rows + "]";
    }
}
