package speed.internal.wire;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.lang.reflect.WildcardType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.regex.Pattern;
import speed.columns.Column;
import speed.errors.ConfigurationException;
import speed.errors.WireException;
import speed.internal.wire.Values.Path;

/** Received values as the types of a program, exactly or not at all. */
public final class Conversion {
    /** What values are that were received. */
    private static final List<Class<?>> KINDS = List.of(
            Boolean.class,
            Long.class,
            Double.class,
            String.class,
            byte[].class,
            ArrayList.class,
            LinkedHashMap.class,
            Instant.class,
            Column.class);

    private static final long MICROSECONDS = 1_000_000;

    private Conversion() {}

    /**
     * A received value as a type.
     *
     * @param reason of the error for a value that is none
     * @param what an error calls the value
     */
    public static <T> T as(Object value, Class<T> type, String reason, String what) {
        try {
            return to(type, value, what);
        } catch (Mismatch misfit) {
            throw new WireException(reason, misfit.getMessage());
        }
    }

    /**
     * A value as a type.
     *
     * @param path what an error calls the value
     * @throws Mismatch for a value that is none
     * @throws ConfigurationException for a type that no value is taken as
     */
    @SuppressWarnings("unchecked") // a primitive's class cannot cast: what was made for it is of its wrapper
    public static <T> T to(Class<T> type, Object value, Object path) {
        return (T) to((Type) Require.value("type", type), value, path);
    }

    private static Object to(Type type, Object value, Object path) {
        if (type instanceof Class<?> plain) {
            return toClass(boxed(plain), Object.class, Object.class, value, path);
        } else if (type instanceof ParameterizedType generic) {
            Type[] parts = generic.getActualTypeArguments();
            return toClass((Class<?>) generic.getRawType(), parts[0], parts[parts.length - 1], value, path);
        } else if (type instanceof GenericArrayType array) {
            return array(raw(array.getGenericComponentType()), array.getGenericComponentType(), value, path);
        }
        return to(type instanceof WildcardType wild ? wild.getUpperBounds()[0] : Object.class, value, path);
    }

    private static Class<?> boxed(Class<?> type) {
        return type.isPrimitive() ? MethodType.methodType(type).wrap().returnType() : type;
    }

    private static Class<?> raw(Type type) {
        return type instanceof ParameterizedType generic
                ? (Class<?>) generic.getRawType()
                : type instanceof Class<?> plain ? plain : Object.class;
    }

    /** A value as a class; a container's keys and its items are of further types. */
    private static Object toClass(Class<?> type, Type keys, Type items, Object value, Object path) {
        if (type == Optional.class) {
            return Optional.ofNullable(value == null ? null : to(items, value, path));
        } else if (type == Object.class || value == null) {
            return type == Object.class ? value : misfit(path, type, "null");
        } else if (type.isRecord()) {
            return record(type, value, path);
        } else if (type.isArray() && type != byte[].class) {
            return array(type.getComponentType(), type.getComponentType(), value, path);
        } else if (type == Set.class) {
            return set(items, value, path);
        } else if (type == List.class || type == Collection.class || type == Iterable.class) {
            return items == Object.class ? list(value, type, path) : list(items, type, value, path);
        } else if (type == Map.class) {
            return map(keys, items, value, path);
        }
        return scalar(type, value, path);
    }

    private static Object scalar(Class<?> type, Object value, Object path) {
        Object made = null;
        if (type.isInstance(value)) {
            return value;
        } else if (value instanceof ByteBuffer view && type == byte[].class) {
            made = Values.bytes(view.duplicate());
        } else if (type == ByteBuffer.class) {
            made = value instanceof byte[] bytes ? ByteBuffer.wrap(bytes).asReadOnlyBuffer() : null;
        } else if (Numbers.has(type)) {
            made = value instanceof Number number && !(value instanceof BigDecimal) ? Numbers.as(type, number) : null;
        } else if (Texts.has(type)) {
            made = value instanceof String text ? Texts.as(type, text) : null;
        } else if (type == Duration.class) {
            made = value instanceof Long microseconds ? duration(microseconds) : null;
        } else if (Message.class.isAssignableFrom(type)) {
            made = value instanceof Any any ? unpacked(type.asSubclass(Message.class), any) : null;
        } else if (KINDS.stream().noneMatch(type::isAssignableFrom)) {
            throw new ConfigurationException("no value is taken as " + type.getTypeName());
        }
        return made == null ? misfit(path, type, given(type, value)) : made;
    }

    private static Duration duration(long microseconds) {
        return Duration.ofSeconds(
                Math.floorDiv(microseconds, MICROSECONDS), Math.floorMod(microseconds, MICROSECONDS) * 1000);
    }

    /** The message of a type; null where it is of another. */
    private static Message unpacked(Class<? extends Message> type, Any any) {
        try {
            return any.unpack(type);
        } catch (InvalidProtocolBufferException another) {
            return null;
        }
    }

    // --- containers ---

    private static List<?> list(Object value, Class<?> type, Object path) {
        return value instanceof List<?> list ? list : (List<?>) misfit(path, type, kind(value));
    }

    private static List<Object> list(Type items, Class<?> type, Object value, Object path) {
        List<Object> made = new ArrayList<>();
        for (Object item : list(value, type, path)) {
            made.add(to(items, item, new Path(path, made.size(), true)));
        }
        return made;
    }

    private static Object set(Type items, Object value, Object path) {
        List<Object> list = list(items, Set.class, value, path);
        Set<Object> made = new LinkedHashSet<>(list);
        return made.size() == list.size() ? made : misfit(path, Set.class, "List with an item twice");
    }

    private static Object array(Class<?> component, Type items, Object value, Object path) {
        List<Object> list = list(items, Array.newInstance(component, 0).getClass(), value, path);
        Object made = Array.newInstance(component, list.size());
        for (int index = 0; index < list.size(); index++) {
            Array.set(made, index, list.get(index));
        }
        return made;
    }

    private static Map<?, ?> map(Type keys, Type items, Object value, Object path) {
        if (!(value instanceof Map<?, ?> members)) {
            return (Map<?, ?>) misfit(path, Map.class, kind(value));
        }
        if (keys == Object.class && items == Object.class) {
            return members;
        }
        Map<Object, Object> made = new LinkedHashMap<>();
        members.forEach(
                (key, item) -> made.put(to(keys, key, "a key of " + path), to(items, item, "a member of " + path)));
        return made;
    }

    private static Object record(Class<?> type, Object value, Object path) {
        if (!(value instanceof Map<?, ?> members)) {
            return misfit(path, type, kind(value));
        }
        RecordShape shape = RecordShape.of(type);
        Object[] values = shape.components().stream()
                .map(one -> member(one, members, path))
                .toArray();
        try {
            return shape.make(values);
        } catch (IllegalArgumentException | NullPointerException | ArithmeticException refused) {
            return misfit(
                    path,
                    type,
                    "what its constructor refuses (" + refused.getClass().getSimpleName() + ")");
        }
    }

    private static Object member(RecordComponent component, Map<?, ?> members, Object path) {
        String key = RecordShape.key(component);
        Path at = new Path(path, key, false);
        if (!members.containsKey(key) && component.getType() != Optional.class) {
            throw Mismatch.missing(at, component.getType().getSimpleName());
        }
        return to(component.getGenericType(), members.get(key), at);
    }

    // --- what does not fit ---

    private static Object misfit(Object path, Class<?> type, String given) {
        throw Mismatch.of(path, type.getSimpleName(), given);
    }

    /** The kind of a value that is none of a type, and why where the kind alone does not say. */
    private static String given(Class<?> type, Object value) {
        boolean isWhole = value instanceof Long || value instanceof BigInteger;
        if (Texts.has(type) && value instanceof String) {
            return "text of another form";
        } else if (type == Double.class && isWhole || type == Float.class && isWhole) {
            return "a whole number that would lose digits";
        } else if (Numbers.has(type) && isWhole || type == Float.class && value instanceof Double) {
            return "a number beyond its range";
        }
        return kind(value);
    }

    private static String kind(Object value) {
        return value instanceof Map
                ? "Map"
                : value instanceof List
                        ? "List"
                        : value instanceof ByteBuffer
                                ? "ByteBuffer"
                                : value.getClass().getSimpleName();
    }

    /** A value that is not what a type asks for. Says where it stands and of what kind it is, never the value. */
    public static final class Mismatch extends RuntimeException {
        private static final long serialVersionUID = 1L;

        private final String expected;
        private final String given;

        private Mismatch(String message, String expected, String given) {
            super(message, null, false, false);
            this.expected = expected;
            this.given = given;
        }

        static Mismatch of(Object path, String expected, String given) {
            return new Mismatch(path + " must be " + expected + ", not " + given, expected, given);
        }

        static Mismatch missing(Object path, String expected) {
            return new Mismatch(path + " is missing: it must be " + expected, expected, "nothing");
        }

        /** The type that was asked for. */
        public String expected() {
            return expected;
        }

        /** The kind of the value instead. */
        public String given() {
            return given;
        }
    }

    /** Whole numbers and floats as the number types of Java, exactly or not at all. */
    public static final class Numbers {
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
                return number instanceof Double wide
                        ? single(wide)
                        : isExact(number, FLOAT_DIGITS) ? (Number) number.floatValue() : null;
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

    /** Types that travel as a text of one form. The JDK reads more forms than this, and each value has one only. */
    static final class Texts {
        private static final String DATE = "(?!0000)\\d{4}-\\d\\d-\\d\\d";
        private static final String TIME = "\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,6})?";
        private static final Map<Class<?>, Form> FORMS = Map.of(
                UUID.class, new Form("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", UUID::fromString),
                LocalDate.class, new Form(DATE, LocalDate::parse),
                LocalTime.class, new Form(TIME, LocalTime::parse),
                LocalDateTime.class, new Form(DATE + "T" + TIME, LocalDateTime::parse),
                BigDecimal.class, new Form("-?\\d+(\\.\\d+)?", BigDecimal::new));

        private record Form(Pattern pattern, Function<String, Object> read) {
            Form(String pattern, Function<String, Object> read) {
                this(Pattern.compile(pattern), read);
            }
        }

        private Texts() {}

        static boolean has(Class<?> type) {
            return type.isEnum() || FORMS.containsKey(type);
        }

        /** A text as one of these types; null for a text of another form. */
        static Object as(Class<?> type, String text) {
            if (type.isEnum()) {
                return constant(type, text);
            }
            Form form = FORMS.get(type);
            if (text.length() > Plain.MAX_DECIMAL_CHARACTERS
                    || !form.pattern.matcher(text).matches()) {
                return null;
            }
            try {
                return form.read.apply(text);
            } catch (DateTimeException noSuchDay) {
                return null;
            }
        }

        private static Object constant(Class<?> type, String name) {
            for (Object one : type.getEnumConstants()) {
                if (((Enum<?>) one).name().equals(name)) {
                    return one;
                }
            }
            return null;
        }
    }
}
