package speed.internal.wire;

import java.math.BigInteger;
import java.util.Map;
import java.util.function.LongFunction;

/** Whole numbers and floats as the number types of Java, exactly or not at all. */
public final class Numbers {
    private static final int DOUBLE_DIGITS = 53;
    private static final int FLOAT_DIGITS = 24;
    private static final Map<Class<?>, LongFunction<Number>> NARROW = Map.of(
            Long.class, number -> number,
            Integer.class, number -> (int) number,
            Short.class, number -> (short) number,
            Byte.class, number -> (byte) number);

    private Numbers() {}

    /** Whether a class is one of these types. */
    static boolean has(Class<?> type) {
        return NARROW.containsKey(type) || type == BigInteger.class || type == Double.class || type == Float.class;
    }

    /** A received number as one of these types; null where it does not fit. */
    static Number as(Class<?> type, Number number) {
        if (type == Double.class) {
            return exactDouble(number);
        } else if (type == Float.class) {
            return number instanceof Double wide ? single(wide) : isExact(number, FLOAT_DIGITS) ? (Number) number.floatValue() : null;
        } else if (number instanceof Long whole) {
            return type == BigInteger.class ? BigInteger.valueOf(whole) : narrow(NARROW.get(type), whole);
        }
        return type.isInstance(number) ? number : null;
    }

    private static Number narrow(LongFunction<Number> type, long whole) {
        Number narrow = type.apply(whole);
        return narrow.longValue() == whole ? narrow : null;
    }

    /** The nearest float; null beyond their range. */
    private static Float single(double wide) {
        boolean fits = !Double.isFinite(wide) || Math.abs(wide) <= Float.MAX_VALUE;
        return fits ? (Float) (float) wide : null;
    }

    /** A number as a float of 64 bits; null for a whole number that would lose digits. */
    public static Double exactDouble(Number number) {
        return number instanceof Double || isExact(number, DOUBLE_DIGITS) ? (Double) number.doubleValue() : null;
    }

    private static boolean isExact(Number number, int digits) {
        if (number instanceof BigInteger big) {
            return big.bitLength() - big.getLowestSetBit() <= digits;
        }
        long magnitude = Math.abs(number.longValue());
        int zeros = Long.numberOfLeadingZeros(magnitude) + Long.numberOfTrailingZeros(magnitude);
        return Long.SIZE - zeros <= digits;
    }
}
