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
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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

    /** A row that does not fit, from 0. */
    static final class Misfit extends RuntimeException {
        private static final long serialVersionUID = 1L;
        final int row;

        Misfit(int row, String why) {
            super(why);
            this.row = row;
        }

        /** The same seen from the row that holds it. */
        Misfit inside(List<Integer> lengths) {
            int holder = 0;
            for (int end = length(lengths.get(0)); end <= row; end += length(lengths.get(holder))) {
                holder++;
            }
            return new Misfit(holder, "holds what " + getMessage());
        }

        private static int length(Integer length) {
            return length == null ? 0 : length;
        }
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
        } catch (ArithmeticException | ClassCastException | CharacterCodingException | DateTimeException misfit) {
            throw new Misfit(row, "does not fit into a column of " + kind);
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
            case TIMESTAMP, TIME, LOCAL_TIMESTAMP, DURATION -> microseconds(kind, row);
            case DATE, MONTHS -> number(kind, row);
            case LIST -> Objects.requireNonNull((List<?>) row);
            case STRUCT, MAP -> Objects.requireNonNull((Map<?, ?>) row);
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
            case TIMESTAMP, TIME, LOCAL_TIMESTAMP, DURATION ->
                numbers(LongBuffer.wrap(
                        rows.stream().mapToLong(row -> microseconds(kind, row)).toArray()));
            case DATE, MONTHS ->
                numbers(rows.stream().mapToInt(row -> number(kind, row)).toArray());
            case DECIMAL -> decimals(rows, scale);
            case LIST, STRUCT, MAP -> throw new IllegalArgumentException(kind + " has no values of its own");
        };
    }

    private ColumnWriter numbers(int[] rows) {
        ByteBuffer part = buffer(rows.length * Integer.BYTES);
        part.asIntBuffer().put(rows);
        return part(part.array());
    }

    private static int number(Kind kind, Object row) {
        if (row == null) {
            return 0;
        }
        return Math.toIntExact(kind == Kind.DATE ? ((LocalDate) row).toEpochDay() : (Long) row);
    }

    private static long microseconds(Kind kind, Object row) {
        if (row == null) {
            return 0;
        }
        return switch (kind) {
            case TIME -> ((LocalTime) row).toNanoOfDay() / 1000;
            case LOCAL_TIMESTAMP -> microseconds(((LocalDateTime) row).toInstant(ZoneOffset.UTC));
            case DURATION -> microseconds(Instant.EPOCH.plus((Duration) row));
            default -> microseconds(row);
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

    /** Rows whose kind is found, and what lies in them (C-8, C-9). */
    static final class Nested {
        private static final int PRECISION = Layout.MAX_PRECISION;
        private static final int USUAL_SCALE = 18;
        private static final Map<Class<?>, Kind> KINDS = Map.ofEntries(
                Map.entry(Long.class, Kind.INT64),
                Map.entry(Double.class, Kind.FLOAT64),
                Map.entry(Boolean.class, Kind.BOOL),
                Map.entry(String.class, Kind.UTF8),
                Map.entry(byte[].class, Kind.BINARY),
                Map.entry(Instant.class, Kind.TIMESTAMP),
                Map.entry(BigDecimal.class, Kind.DECIMAL),
                Map.entry(LocalDate.class, Kind.DATE),
                Map.entry(LocalTime.class, Kind.TIME),
                Map.entry(LocalDateTime.class, Kind.LOCAL_TIMESTAMP),
                Map.entry(Duration.class, Kind.DURATION));

        private Nested() {}

        /** The body of rows of a kind, or of that of the first that is not null where that is null. */
        static byte[] write(Kind declared, List<?> rows, int depth) {
            if (depth > Layout.MAX_DEPTH) {
                throw new UnserialisableException("a column is nested deeper than " + Layout.MAX_DEPTH);
            }
            Kind kind = declared == null ? kindOf(rows) : declared;
            List<Object> fitting = new ArrayList<>(rows);
            if (depth > 1 || declared == null) {
                fitting.replaceAll(row -> fitting(kind, row));
            }
            if (!kind.isNested()) {
                boolean isDecimal = kind == Kind.DECIMAL;
                return ColumnWriter.write(kind, fitting, isDecimal ? PRECISION : 0, isDecimal ? scale(rows) : 0);
            }
            for (int row = 0; row < rows.size(); row++) {
                Object one = rows.get(row);
                if (one != null && !(kind == Kind.LIST ? one instanceof List : one instanceof Map)) {
                    throw misfit(row, kind);
                }
            }
            return switch (kind) {
                case LIST -> listsOf(rows, depth);
                case MAP -> mapsOf(rows, depth);
                default -> structsOf(rows, depth);
            };
        }

        private static Misfit misfit(int row, Kind kind) {
            return new Misfit(row, "does not fit into a column of " + kind);
        }

        /** The body of what rows of such lengths hold. */
        private static byte[] held(List<Integer> lengths, List<Object> held, Kind kind, int depth) {
            try {
                return write(kind, held, depth + 1);
            } catch (Misfit misfit) {
                throw misfit.inside(lengths);
            }
        }

        private static Kind kindOf(List<?> rows) {
            Object first = rows.stream().filter(Objects::nonNull).findFirst().orElse(null);
            if (first instanceof Map) {
                return isMap(rows) ? Kind.MAP : Kind.STRUCT;
            }
            Kind kind = first == null ? Kind.FLOAT64 : first instanceof List ? Kind.LIST : KINDS.get(first.getClass());
            if (kind == null) {
                throw new UnserialisableException(
                        "a column of " + first.getClass().getSimpleName() + " has no kind");
            }
            return kind;
        }

        /** Whether maps are those of a column of maps, and not structs. */
        private static boolean isMap(List<?> rows) {
            List<Object> values = new ArrayList<>();
            for (Object row : rows) {
                if (row instanceof Map<?, ?> map) {
                    if (!map.keySet().stream().allMatch(String.class::isInstance)) {
                        return true;
                    }
                    map.values().stream().filter(Objects::nonNull).forEach(values::add);
                }
            }
            boolean areScalars = values.stream().noneMatch(value -> value instanceof List || value instanceof Map);
            return areScalars
                    && (values.stream().map(Object::getClass).distinct().count() < 2 || areNumbers(values));
        }

        private static boolean areNumbers(List<?> values) {
            return values.stream().allMatch(value -> value == null || value instanceof Long || value instanceof Double);
        }

        /** A whole number becomes a float or a decimal, if that loses no digit; all else stays as it is. */
        private static Object fitting(Kind kind, Object row) {
            if (!(row instanceof Long || row instanceof BigInteger)) {
                return row;
            }
            BigDecimal number = new BigDecimal(row.toString());
            if (kind == Kind.FLOAT64) {
                double nearest = number.doubleValue();
                boolean isExact = Double.isFinite(nearest) && new BigDecimal(nearest).compareTo(number) == 0;
                return isExact ? (Object) nearest : row;
            }
            return kind == Kind.DECIMAL ? number : row;
        }

        /** The usual scale, unless a row does not fit into it: then as many digits as any row has behind its point. */
        private static int scale(List<?> rows) {
            int integerDigits = 0;
            int fractionDigits = 0;
            for (Object row : rows) {
                if (row instanceof BigDecimal decimal) {
                    BigDecimal plain = decimal.stripTrailingZeros();
                    integerDigits = Math.max(integerDigits, plain.precision() - plain.scale());
                    fractionDigits = Math.max(fractionDigits, plain.scale());
                }
            }
            boolean isUsual = integerDigits <= PRECISION - USUAL_SCALE && fractionDigits <= USUAL_SCALE;
            return isUsual ? USUAL_SCALE : Math.min(fractionDigits, PRECISION);
        }

        private static byte[] listsOf(List<?> rows, int depth) {
            List<Object> items = new ArrayList<>();
            List<Integer> lengths = new ArrayList<>();
            for (Object row : rows) {
                items.addAll(row == null ? List.of() : (List<?>) row);
                lengths.add(row == null ? null : (Integer) ((List<?>) row).size());
            }
            return lists(lengths, held(lengths, items, null, depth));
        }

        private static byte[] mapsOf(List<?> rows, int depth) {
            List<Object> keys = new ArrayList<>();
            List<Object> values = new ArrayList<>();
            List<Integer> lengths = new ArrayList<>();
            for (Object row : rows) {
                Map<?, ?> map = row == null ? Map.of() : (Map<?, ?>) row;
                keys.addAll(map.keySet());
                values.addAll(map.values());
                lengths.add(row == null ? null : (Integer) map.size());
            }
            if (keys.contains(null)) {
                throw new UnserialisableException("a map has a key that is null");
            }
            boolean areFloats = areNumbers(values) && values.stream().anyMatch(Double.class::isInstance);
            return maps(
                    lengths,
                    held(lengths, keys, null, depth),
                    held(lengths, values, areFloats ? Kind.FLOAT64 : null, depth));
        }

        private static byte[] structsOf(List<?> rows, int depth) {
            Map<String, List<Object>> members = new LinkedHashMap<>();
            for (int number = 0; number < rows.size(); number++) {
                Map<?, ?> row = rows.get(number) == null ? Map.of() : (Map<?, ?>) rows.get(number);
                for (Map.Entry<?, ?> member : row.entrySet()) {
                    if (!(member.getKey() instanceof String name)) {
                        throw misfit(number, Kind.STRUCT);
                    }
                    members.computeIfAbsent(name, any -> new ArrayList<>(Collections.nCopies(rows.size(), null)))
                            .set(number, member.getValue());
                }
            }
            Map<String, byte[]> fields = new LinkedHashMap<>();
            members.forEach((name, values) -> fields.put(name, write(null, values, depth + 1)));
            if (fields.isEmpty()) {
                throw new UnserialisableException("a column of structs has at least one field");
            }
            return structs(fields, rows.stream().map(Objects::nonNull).toList());
        }

        // --- bodies of columns that are there ---

        static byte[] lists(List<Integer> lengths, byte[] items) {
            return offsets(Kind.LIST, lengths, rows(items)).inner(items).body();
        }

        static byte[] maps(List<Integer> lengths, byte[] keys, byte[] values) {
            if (rows(keys) != rows(values) || keys[1] != 0) {
                throw new IllegalArgumentException("maps have as many values as keys, and no key is null");
            }
            return offsets(Kind.MAP, lengths, rows(keys))
                    .inner(keys)
                    .inner(values)
                    .body();
        }

        static byte[] structs(Map<String, byte[]> fields, List<Boolean> isPresent) {
            if (fields.isEmpty() || fields.values().stream().anyMatch(field -> rows(field) != isPresent.size())) {
                throw new IllegalArgumentException("structs have at least one field, and all have as many rows");
            }
            ColumnWriter writer = begin(Kind.STRUCT, isPresent);
            writer.inner(ColumnWriter.write(Kind.UTF8, List.copyOf(fields.keySet()), 0, 0));
            fields.values().forEach(writer::inner);
            return writer.body();
        }

        private static int rows(byte[] body) {
            return ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN).getInt(Integer.BYTES);
        }

        private static ColumnWriter begin(Kind kind, List<Boolean> isPresent) {
            boolean hasNulls = isPresent.contains(false);
            ColumnWriter writer = new ColumnWriter(kind, isPresent.size(), hasNulls, 0, 0);
            return hasNulls ? writer.bits(isPresent) : writer;
        }

        private static ColumnWriter offsets(Kind kind, List<Integer> lengths, int items) {
            ByteBuffer offsets = buffer((lengths.size() + 1) * Integer.BYTES).putInt(0);
            long end = 0;
            for (Integer length : lengths) {
                end += length == null ? 0 : length;
                if (end > items || length != null && length < 0) {
                    break;
                }
                offsets.putInt((int) end);
            }
            if (end != items || offsets.hasRemaining()) {
                throw new IllegalArgumentException("the lengths of the rows are not those of the items");
            }
            return begin(kind, lengths.stream().map(Objects::nonNull).toList()).part(offsets.array());
        }
    }

    private ColumnWriter inner(byte[] body) {
        out.writeBytes(body);
        return this;
    }
}
