package speed.internal.wire;

import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.UUID;
import speed.errors.UnserialisableException;

/** What values travel as whose types have no kind of their own: a text, a number, a list or a map. */
public final class Plain {
    /** Enough for any decimal that means something; a text that is longer takes long to read. */
    static final int MAX_DECIMAL_CHARACTERS = 1000;

    private static final long MICROSECONDS = 1_000_000;
    private static final int LAST_YEAR = 9999;

    private Plain() {}

    /**
     * The form of a value, of which only the outermost is changed; the value itself where it has no other form.
     *
     * @param path what an error calls the value
     */
    public static Object of(Object value, Object path) {
        if (value instanceof UUID) {
            return value.toString();
        } else if (value instanceof Enum<?> one) {
            return one.name();
        } else if (value instanceof Optional<?> optional) {
            return optional.isPresent() ? of(optional.get(), path) : null;
        } else if (value instanceof Record whole) {
            return RecordShape.of(whole.getClass()).members(whole);
        } else if (value instanceof Collection<?> items && !(value instanceof List<?>)) {
            return new ArrayList<>(items);
        } else if (value instanceof BigDecimal number) {
            return decimal(number, path);
        }
        return value != null && value.getClass().isArray() ? list(value) : time(value, path);
    }

    private static Object time(Object value, Object path) {
        if (value instanceof Duration duration) {
            return microseconds(duration, path);
        } else if (value instanceof LocalDate date) {
            return date(date, path);
        } else if (value instanceof LocalTime time) {
            return time(time);
        } else if (value instanceof LocalDateTime both) {
            return date(both.toLocalDate(), path) + "T" + time(both.toLocalTime());
        }
        return value;
    }

    private static Object list(Object array) {
        if (array instanceof byte[] || array instanceof char[]) {
            return array;
        }
        List<Object> items = new ArrayList<>();
        for (int index = 0; index < Array.getLength(array); index++) {
            items.add(Array.get(array, index));
        }
        return items;
    }

    private static String decimal(BigDecimal number, Object path) {
        long digits = Math.max((long) number.precision() - number.scale(), 1) + Math.max(number.scale(), 0);
        if (digits + "-.".length() > MAX_DECIMAL_CHARACTERS) {
            throw new UnserialisableException(
                    path + " is a decimal of more than " + MAX_DECIMAL_CHARACTERS + " characters");
        }
        return number.toPlainString();
    }

    private static Long microseconds(Duration duration, Object path) {
        try {
            return Math.addExact(Math.multiplyExact(duration.getSeconds(), MICROSECONDS), duration.getNano() / 1000);
        } catch (ArithmeticException tooLong) {
            throw new UnserialisableException(path + " is a duration beyond 64 bits of microseconds");
        }
    }

    private static String date(LocalDate date, Object path) {
        if (date.getYear() < 1 || date.getYear() > LAST_YEAR) {
            throw new UnserialisableException(path + " is a date outside the years 1 to " + LAST_YEAR);
        }
        return date.toString();
    }

    /** With seconds, which other languages expect; the rest is rounded down to microseconds. */
    private static String time(LocalTime time) {
        int microseconds = time.getNano() / 1000;
        String seconds =
                String.format(Locale.ROOT, "%02d:%02d:%02d", time.getHour(), time.getMinute(), time.getSecond());
        return microseconds == 0 ? seconds : seconds + String.format(Locale.ROOT, ".%06d", microseconds);
    }
}
