package speed;

import speed.errors.WireException;
import speed.internal.wire.Conversion;

/** A received value as a type of the program. */
public final class Value {
    private Value() {}

    /**
     * A value as a type, exactly: nothing is rounded, and no kind of value turns into another.
     *
     * <ul>
     *   <li>Boolean, String, {@code byte[]}, List, Map, Instant, Column, Object: as it is
     *   <li>ByteBuffer: of bytes, read-only
     *   <li>Byte to Long and BigInteger, or their primitives: a whole number in their range
     *   <li>Double: a float, or a whole number that it holds exactly; Float: the nearest of a float in its range
     *   <li>UUID, LocalDate, LocalTime, LocalDateTime, BigDecimal, an enum: a text of that form
     *   <li>Duration: a whole number of microseconds
     *   <li>Optional: nothing of null; Set and arrays: of a list without, or with, items that are there twice
     *   <li>a protobuf message: one that was received as {@code Any}
     *   <li>a record: a map with a member for each component; only an Optional may be missing, others are ignored
     * </ul>
     *
     * @param <T> the type
     * @param value a result, a payload, or a part of one
     * @param type what it should be
     * @return the value, never null for any other type than Object
     * @throws WireException saying where the value is of another kind, and of which
     * @throws speed.errors.ConfigurationException for a type that no value is taken as, or a record whose module does not
     *     open its package to this one
     */
    public static <T> T as(Object value, Class<T> type) {
        return Conversion.as(value, type, "BAD_PAYLOAD", "the value");
    }
}
