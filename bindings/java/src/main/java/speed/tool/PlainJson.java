package speed.tool;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.columns.Column;
import speed.internal.wire.Json;

/** Values in lines of JSON: what JSON has no word for is an object with one key that begins with a dollar sign. */
public final class PlainJson {
    private static final long EXACT = 1L << 53;

    private PlainJson() {}

    static String write(Object value) {
        return Json.write(plain(value));
    }

    static Object parse(String text) {
        return value(Json.parse(text));
    }

    private static Object plain(Object value) {
        if (value instanceof byte[] bytes) {
            return Map.of("$bytes", Base64.getEncoder().encodeToString(bytes));
        }
        if (value instanceof Double number && !Double.isFinite(number)) {
            return Map.of("$float", number.isNaN() ? "nan" : number > 0 ? "inf" : "-inf");
        }
        boolean isWide = value instanceof Long number && Math.abs(number) > EXACT;
        if (value instanceof BigInteger || isWide) {
            return Map.of("$int", value.toString());
        }
        if (value instanceof Instant instant) {
            return Map.of("$timestamp", List.of(instant.getEpochSecond(), instant.getNano()));
        }
        if (value instanceof Column column) {
            byte[] body = new byte[column.body().remaining()];
            column.body().get(body);
            return Map.of("$column", Base64.getEncoder().encodeToString(body));
        }
        if (value instanceof List<?> items) {
            List<Object> plain = new ArrayList<>();
            items.forEach(item -> plain.add(plain(item)));
            return plain;
        }
        return value instanceof Map<?, ?> map ? plainMap(map) : value;
    }

    private static Object plainMap(Map<?, ?> map) {
        boolean isObject = map.keySet().stream().allMatch(key -> key instanceof String text && !text.startsWith("$"));
        if (!isObject) {
            List<Object> pairs = new ArrayList<>();
            map.forEach((key, item) -> pairs.add(Arrays.asList(plain(key), plain(item)))); // an item may be null
            return Map.of("$map", pairs);
        }
        Map<Object, Object> plain = new LinkedHashMap<>();
        map.forEach((key, item) -> plain.put(key, plain(item)));
        return plain;
    }

    private static Object value(Object plain) {
        if (plain instanceof List<?> items) {
            List<Object> values = new ArrayList<>();
            items.forEach(item -> values.add(value(item)));
            return values;
        }
        if (!(plain instanceof Map<?, ?> map)) {
            return plain;
        }
        if (map.size() == 1) {
            Map.Entry<?, ?> only = map.entrySet().iterator().next();
            switch ((String) only.getKey()) {
                case "$bytes":
                    return Base64.getDecoder().decode((String) only.getValue());
                case "$int":
                    return Notation.integer((String) only.getValue());
                case "$float":
                    return number((String) only.getValue());
                case "$timestamp":
                    return Notation.instant((List<?>) only.getValue());
                case "$column":
                    return Column.parse(Base64.getDecoder().decode((String) only.getValue()));
                case "$map":
                    return members((List<?>) only.getValue());
                default:
                    break;
            }
        }
        Map<Object, Object> values = new LinkedHashMap<>();
        map.forEach((key, item) -> values.put(key, value(item)));
        return values;
    }

    private static double number(String text) {
        return switch (text) {
            case "nan" -> Double.NaN;
            case "inf" -> Double.POSITIVE_INFINITY;
            default -> Double.NEGATIVE_INFINITY;
        };
    }

    private static Map<Object, Object> members(List<?> pairs) {
        Map<Object, Object> members = new LinkedHashMap<>();
        pairs.forEach(pair -> members.put(value(((List<?>) pair).get(0)), value(((List<?>) pair).get(1))));
        return members;
    }

    /** Values as the vectors note them (registry_spec/README.md): what JSON lacks is an object with one key. */
    public static final class Notation {
        private Notation() {}

        /** The value that a piece of JSON stands for. */
        public static Object value(Object noted) {
            if (noted instanceof List<?> items) {
                List<Object> values = new ArrayList<>();
                items.forEach(item -> values.add(value(item)));
                return values;
            }
            if (!(noted instanceof Map<?, ?> map)) {
                return noted;
            }
            Map.Entry<?, ?> only = map.entrySet().iterator().next();
            return switch ((String) only.getKey()) {
                case "int" -> integer((String) only.getValue());
                case "float" -> ByteBuffer.wrap(hex(only.getValue())).getDouble();
                case "bytes" -> hex(only.getValue());
                case "decimal" -> new java.math.BigDecimal((String) only.getValue());
                case "timestamp" -> instant((List<?>) only.getValue());
                case "date" -> LocalDate.parse((String) only.getValue());
                case "time" -> LocalTime.parse((String) only.getValue());
                case "local" -> LocalDateTime.parse((String) only.getValue());
                case "duration" -> Duration.of(Long.parseLong((String) only.getValue()), ChronoUnit.MICROS);
                default -> members((List<?>) only.getValue());
            };
        }

        /** A Long where it fits. */
        static Object integer(String digits) {
            BigInteger number = new BigInteger(digits);
            return number.bitLength() < Long.SIZE ? (Object) number.longValue() : number;
        }

        static Instant instant(List<?> time) {
            return Instant.ofEpochSecond(
                    Long.parseLong(time.get(0).toString()),
                    Long.parseLong(time.get(1).toString()));
        }

        private static Map<Object, Object> members(List<?> pairs) {
            Map<Object, Object> members = new LinkedHashMap<>();
            pairs.forEach(pair -> members.put(value(((List<?>) pair).get(0)), value(((List<?>) pair).get(1))));
            return members;
        }

        private static byte[] hex(Object digits) {
            return HexFormat.of().parseHex((String) digits);
        }
    }
}
