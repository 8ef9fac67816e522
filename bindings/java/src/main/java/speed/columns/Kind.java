package speed.columns;

/** What the rows of a column are. The order is that of the numbers on the wire, from 1. */
public enum Kind {
    /** Whole numbers of 64 bits; rows are Long. */
    INT64,
    /** Numbers; rows are Double. */
    FLOAT64,
    /** True or false; rows are Boolean. */
    BOOL,
    /** Text; rows are String. */
    UTF8,
    /** Bytes; rows are {@code byte[]}. */
    BINARY,
    /** Microseconds since 1970 UTC; rows are Instant. */
    TIMESTAMP,
    /** Decimal numbers of one scale; rows are BigDecimal. */
    DECIMAL,
    /** Days since 1970; rows are LocalDate. */
    DATE,
    /** Microseconds since midnight; rows are LocalTime. */
    TIME,
    /** Microseconds since 1970 where there is no zone; rows are LocalDateTime. */
    LOCAL_TIMESTAMP,
    /** Microseconds; rows are Duration. */
    DURATION,
    /** Months, 32 bits of them; rows are Long. */
    MONTHS,
    /** Items of one kind; rows are List. */
    LIST,
    /** Fields with names, each of a kind; rows are Map, by text. */
    STRUCT,
    /** Keys of one kind and values of one kind; rows are Map. */
    MAP;

    /** The kind of a number on the wire, null if there is none. */
    static Kind of(int number) {
        return number < 1 || number > values().length ? null : values()[number - 1];
    }

    int number() {
        return ordinal() + 1;
    }

    boolean hasOffsets() {
        return this == UTF8 || this == BINARY || this == LIST || this == MAP;
    }

    boolean isNested() {
        return compareTo(LIST) >= 0;
    }

    /** Whether rows are 64 bits of a whole number. */
    boolean isLong() {
        return switch (this) {
            case INT64, TIMESTAMP, TIME, LOCAL_TIMESTAMP, DURATION -> true;
            default -> false;
        };
    }

    /** Bytes of the data of so many rows; not for kinds with offsets. */
    long dataBytes(long rows) {
        return switch (this) {
            case BOOL -> Layout.bitBytes(rows);
            case DECIMAL -> rows * Layout.DECIMAL_BYTES;
            case DATE, MONTHS -> rows * Integer.BYTES;
            default -> rows * Long.BYTES;
        };
    }

    /** Sizes of the parts of a body. */
    static final class Layout {
        static final int HEADER_BYTES = 8;
        static final int DECIMAL_BYTES = 16;
        static final int MAX_PRECISION = 38;
        static final int MAX_DEPTH = 32;
        static final int MAX_INNER = 65_536;

        private Layout() {}

        static long filled(long size) {
            return (size + 7) / 8 * 8;
        }

        static long bitBytes(long rows) {
            return (rows + 7) / 8;
        }

        static boolean bit(byte[] body, int at, int row) {
            return (body[at + row / 8] >> row % 8 & 1) != 0;
        }
    }
}
