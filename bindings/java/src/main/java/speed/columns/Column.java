package speed.columns;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import speed.columns.ColumnWriter.Misfit;
import speed.columns.ColumnWriter.Nested;
import speed.columns.Kind.Layout;
import speed.errors.UnserialisableException;
import speed.errors.WireException;

/**
 * Many values of one kind side by side, as they travel (registry_spec/columns.md). Immutable, so that threads may share
 * it; numbers are read where they lie, without a copy.
 */
public final class Column {
    /** The cause of an UnserialisableException that a row brought about. */
    public static final class RowMisfit extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final transient int row;

        private RowMisfit(int row, String why) {
            super(why);
            this.row = row;
        }

        /**
         * The first row that does not fit.
         *
         * @return from 0
         */
        public int row() {
            return row;
        }
    }

    private final byte[] body;
    private final Parts parts;

    private Column(byte[] body) {
        this(body, new Parts(body, 0, body.length));
    }

    private Column(byte[] body, Parts parts) {
        this.body = body;
        this.parts = parts;
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
     * Reads a column where it lies, among other bytes: a buffer with an array is kept, of another one a copy is made.
     *
     * @param body the bytes as they travel; not to be changed afterwards
     * @return the column over these bytes
     * @throws speed.errors.WireException BAD_PAYLOAD if they are no column
     */
    public static Column parse(ByteBuffer body) {
        if (!body.hasArray()) {
            byte[] copied = new byte[body.remaining()];
            body.duplicate().get(copied);
            return new Column(copied);
        }
        int from = body.arrayOffset() + body.position();
        return new Column(body.array(), new Parts(body.array(), from, from + body.remaining()));
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
     * A column of rows that may be null, of the kind of the first that is not: FLOAT64 if all are. Maps make a MAP if what they
     * hold is of one kind without others in it, or a key is no text, else a STRUCT. A decimal has 18 digits behind the point, or
     * what the digits need if that does not hold them.
     *
     * @param rows its values, of the classes that {@link Kind} names
     * @return the column
     * @throws speed.errors.UnserialisableException naming the first row that does not fit, or a class that is of no kind
     */
    public static Column of(List<?> rows) {
        return named(() -> Nested.write(null, rows, 1));
    }

    /**
     * A column of rows that may be null. What rows of LIST, STRUCT and MAP hold is of the kind of the first, and so is the
     * scale of DECIMAL that of all rows, as {@link #of(List)} says.
     *
     * @param kind of all rows
     * @param rows its values, of the class that {@link Kind} names
     * @return the column
     * @throws speed.errors.UnserialisableException naming the first row that does not fit
     */
    public static Column of(Kind kind, List<?> rows) {
        return named(() -> Nested.write(kind, rows, 1));
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
        return named(() -> ColumnWriter.write(Kind.DECIMAL, rows, precision, scale));
    }

    /**
     * A column of lists.
     *
     * @param lengths how many items each row has; null where the row is null
     * @param items of all rows, one after the other
     * @return the column
     * @throws IllegalArgumentException if the lengths are not those of the items
     * @throws speed.errors.UnserialisableException if it is nested too deep
     */
    public static Column lists(List<Integer> lengths, Column items) {
        return nested(Nested.lists(lengths, items.bytes()));
    }

    /**
     * A column of maps.
     *
     * @param lengths how many entries each row has; null where the row is null
     * @param keys of all rows, none of them null
     * @param values of all rows
     * @return the column
     * @throws IllegalArgumentException if the lengths are not those of keys and values, or a key may be null
     * @throws speed.errors.UnserialisableException if it is nested too deep
     */
    public static Column maps(List<Integer> lengths, Column keys, Column values) {
        return nested(Nested.maps(lengths, keys.bytes(), values.bytes()));
    }

    /**
     * A column of structs.
     *
     * @param fields at least one, of the same rows
     * @param isPresent for each row, false where it is null
     * @return the column
     * @throws IllegalArgumentException if there is no field, or one has other rows
     * @throws speed.errors.UnserialisableException if it is nested too deep
     */
    public static Column structs(Map<String, Column> fields, List<Boolean> isPresent) {
        Map<String, byte[]> bodies = new LinkedHashMap<>();
        fields.forEach((name, field) -> bodies.put(name, field.bytes()));
        return nested(Nested.structs(bodies, isPresent));
    }

    private static Column named(Supplier<byte[]> write) {
        try {
            return new Column(write.get());
        } catch (Misfit misfit) {
            UnserialisableException named =
                    new UnserialisableException("row " + misfit.row + " " + misfit.getMessage());
            named.initCause(new RowMisfit(misfit.row, misfit.getMessage()));
            throw named;
        }
    }

    private static Column nested(byte[] body) {
        try {
            return new Column(body);
        } catch (WireException tooDeep) {
            throw new UnserialisableException(tooDeep.getMessage());
        }
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
     * All rows of INT64, or the microseconds of TIMESTAMP, TIME, LOCAL_TIMESTAMP or DURATION, where they lie.
     *
     * @return a read-only view
     * @throws WrongKindException for another kind
     */
    public LongBuffer longs() {
        if (!parts.kind.isLong()) {
            expect(Kind.INT64);
        }
        return data(Long.BYTES).asLongBuffer();
    }

    /**
     * The days of DATE or the months of MONTHS, where they lie.
     *
     * @return a read-only view
     * @throws WrongKindException for another kind
     */
    public IntBuffer ints() {
        if (parts.kind != Kind.MONTHS) {
            expect(Kind.DATE);
        }
        return data(Integer.BYTES).asIntBuffer();
    }

    /**
     * What lies in it.
     *
     * @return the items of LIST, the keys and values of MAP, the fields of STRUCT; else nothing
     */
    public List<Column> children() {
        return parts.children.stream().map(child -> new Column(body, child)).toList();
    }

    /**
     * The names of the fields of STRUCT.
     *
     * @return in the order of {@link #children()}; else nothing
     */
    public List<String> names() {
        return parts.names;
    }

    /**
     * Where the items of LIST, or the entries of MAP, of a row begin in the children. They end where the next row begins.
     *
     * @param row 0 to rows
     * @return the first of them
     * @throws WrongKindException for another kind
     */
    public int offset(int row) {
        if (parts.kind != Kind.MAP) {
            expect(Kind.LIST);
        }
        return parts.offset(row);
    }

    /**
     * The kind with what lies in it.
     *
     * @return such as {@code list<int64>}, {@code struct<a: utf8>}, {@code decimal(9, 2)}
     */
    public String typeName() {
        String name = parts.kind.name().toLowerCase(Locale.ROOT);
        if (parts.kind == Kind.DECIMAL) {
            return name + "(" + parts.precision + ", " + parts.scale + ")";
        }
        List<Column> children = children();
        List<String> inner = new ArrayList<>();
        for (int child = 0; child < children.size(); child++) {
            String field = parts.kind == Kind.STRUCT ? parts.names.get(child) + ": " : "";
            inner.add(field + children.get(child).typeName());
        }
        return inner.isEmpty() ? name : name + "<" + String.join(", ", inner) + ">";
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
     * @throws java.time.DateTimeException for a TIME beyond a day
     * @throws IllegalStateException for a MAP with a key twice
     */
    public Object get(int row) {
        if (isNull(row)) {
            return null;
        }
        return switch (parts.kind) {
            case INT64 -> longs().get(row);
            case FLOAT64 -> doubles().get(row);
            case BOOL -> Layout.bit(body, parts.data, row);
            case UTF8 -> new String(body, parts.valueStart(row), parts.valueSize(row), StandardCharsets.UTF_8);
            case BINARY -> Arrays.copyOfRange(body, parts.valueStart(row), parts.valueStart(row + 1));
            case TIMESTAMP -> Instant.EPOCH.plus(longs().get(row), ChronoUnit.MICROS);
            case DECIMAL -> decimal(row);
            case DATE -> LocalDate.ofEpochDay(ints().get(row));
            case TIME -> LocalTime.ofNanoOfDay(Math.multiplyExact(longs().get(row), 1000L));
            case LOCAL_TIMESTAMP -> LocalDateTime.of(1970, 1, 1, 0, 0).plus(longs().get(row), ChronoUnit.MICROS);
            case DURATION -> Duration.of(longs().get(row), ChronoUnit.MICROS);
            case MONTHS -> (long) ints().get(row);
            case LIST -> items(row);
            case STRUCT -> fields(row);
            case MAP -> entries(row);
        };
    }

    private List<Object> items(int row) {
        Column items = new Column(body, parts.children.get(0));
        List<Object> list = new ArrayList<>();
        for (int item = parts.offset(row); item < parts.offset(row + 1); item++) {
            list.add(items.get(item));
        }
        return list;
    }

    private Map<String, Object> fields(int row) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int field = 0; field < parts.names.size(); field++) {
            fields.put(parts.names.get(field), new Column(body, parts.children.get(field)).get(row));
        }
        return fields;
    }

    private Map<Object, Object> entries(int row) {
        Column keys = new Column(body, parts.children.get(0));
        Column values = new Column(body, parts.children.get(1));
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int entry = parts.offset(row); entry < parts.offset(row + 1); entry++) {
            map.put(keys.get(entry), values.get(entry));
        }
        if (map.size() < parts.offset(row + 1) - parts.offset(row)) {
            throw new IllegalStateException("a map has a key twice");
        }
        return map;
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
        return ByteBuffer.wrap(body, parts.start, parts.end - parts.start)
                .slice()
                .asReadOnlyBuffer();
    }

    private byte[] bytes() {
        return Arrays.copyOfRange(body, parts.start, parts.end);
    }

    private ByteBuffer data(int bytesEach) {
        return ByteBuffer.wrap(body, parts.data, parts.rows * bytesEach)
                .slice()
                .asReadOnlyBuffer()
                .order(ByteOrder.LITTLE_ENDIAN);
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
        return other instanceof Column column && body().equals(column.body());
    }

    @Override
    public int hashCode() {
        return body().hashCode();
    }

    /** Says the kind and the number of rows, never a value. */
    @Override
    public String toString() {
        return "Column[" + parts.kind + ", rows=" + parts.rows + "]";
    }
}
