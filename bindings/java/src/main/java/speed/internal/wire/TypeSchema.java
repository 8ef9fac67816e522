package speed.internal.wire;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import speed.columns.Column;

/** JSON Schema of the form in which values of a type travel. */
public final class TypeSchema {
    /** Records within records: what lies deeper may be anything. */
    private static final int MOST_DEPTH = 6;

    private static final Map<Class<?>, Map<String, Object>> FORMS = Map.ofEntries(
            Map.entry(boolean.class, Map.of("type", "boolean")),
            Map.entry(Boolean.class, Map.of("type", "boolean")),
            Map.entry(BigInteger.class, Map.of("type", "integer")),
            Map.entry(double.class, Map.of("type", "number")),
            Map.entry(Double.class, Map.of("type", "number")),
            Map.entry(float.class, Map.of("type", "number")),
            Map.entry(Float.class, Map.of("type", "number")),
            Map.entry(String.class, Map.of("type", "string")),
            Map.entry(byte[].class, bytes()),
            Map.entry(ByteBuffer.class, bytes()),
            Map.entry(Instant.class, text("date-time")),
            Map.entry(BigDecimal.class, text("decimal")),
            Map.entry(LocalDate.class, text("date")),
            Map.entry(LocalTime.class, text("time")),
            Map.entry(LocalDateTime.class, text("local-date-time")),
            Map.entry(UUID.class, text("uuid")),
            Map.entry(Duration.class, ordered("type", "integer", "format", "microseconds")),
            Map.entry(Column.class, ordered("type", "array", "format", "column")));

    private static final Set<Class<?>> INTEGERS =
            Set.of(byte.class, Byte.class, short.class, Short.class, int.class, Integer.class, long.class, Long.class);

    private TypeSchema() {}

    /** The schema of a type; that of anything for one that it does not know. */
    public static Map<String, Object> of(Class<?> type) {
        return of(type, MOST_DEPTH);
    }

    private static Map<String, Object> of(Type type, int depth) {
        if (type instanceof ParameterizedType generic && generic.getRawType() instanceof Class<?> raw) {
            Type[] parts = generic.getActualTypeArguments();
            return container(raw, of(parts[parts.length - 1], depth), depth);
        }
        return type instanceof Class<?> plain ? ofClass(plain, depth) : Map.of();
    }

    private static Map<String, Object> ofClass(Class<?> type, int depth) {
        if (FORMS.containsKey(type)) {
            return FORMS.get(type);
        } else if (INTEGERS.contains(type)) {
            return Map.of("type", "integer");
        } else if (type.isEnum()) {
            return Map.of(
                    "enum",
                    Arrays.stream(type.getEnumConstants())
                            .map(one -> ((Enum<?>) one).name())
                            .toList());
        } else if (type.isArray()) {
            return ordered("type", "array", "items", ofClass(type.getComponentType(), depth));
        } else if (type.isRecord()) {
            return depth == 0 ? Map.of("type", "object") : record(type, depth - 1);
        }
        return container(type, Map.of(), depth);
    }

    private static Map<String, Object> container(Class<?> type, Map<String, Object> items, int depth) {
        if (type == Optional.class) {
            return Map.of("anyOf", List.of(items, Map.of("type", "null")));
        } else if (type == Map.class) {
            return items.isEmpty()
                    ? Map.of("type", "object")
                    : ordered("type", "object", "additionalProperties", items);
        } else if (Iterable.class.isAssignableFrom(type) || Collection.class.isAssignableFrom(type)) {
            return items.isEmpty() ? Map.of("type", "array") : ordered("type", "array", "items", items);
        }
        return Map.of();
    }

    private static Map<String, Object> record(Class<?> type, int depth) {
        Map<String, Object> properties = new LinkedHashMap<>();
        List<String> required = new ArrayList<>();
        for (RecordComponent one : type.getRecordComponents()) {
            properties.put(RecordShape.key(one), of(one.getGenericType(), depth));
            if (one.getType() != Optional.class) {
                required.add(RecordShape.key(one));
            }
        }
        Map<String, Object> schema = ordered("type", "object", "properties", properties);
        schema.put("required", required);
        return schema;
    }

    private static Map<String, Object> text(String form) {
        return ordered("type", "string", "format", form);
    }

    private static Map<String, Object> bytes() {
        return ordered("type", "string", "contentEncoding", "base64");
    }

    private static Map<String, Object> ordered(String first, Object value, String second, Object other) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put(first, value);
        map.put(second, other);
        return map;
    }
}
