package speed.tool;

import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.wire.Json;

/** Values in lines of JSON: what JSON has no word for is an object with one key that begins with a dollar sign. */
final class PlainJson {
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
            return Map.of("$timestamp", List.of(instant.getEpochSecond(), (long) instant.getNano()));
        }
        if (value instanceof List<?> items) {
            return items.stream().map(PlainJson::plain).toList();
        }
        return value instanceof Map<?, ?> map ? plainMap(map) : value;
    }

    private static Object plainMap(Map<?, ?> map) {
        if (!map.keySet().stream().allMatch(key -> key instanceof String text && !text.startsWith("$"))) {
            return Map.of("$map", map.entrySet().stream()
                    .map(pair -> Arrays.asList(plain(pair.getKey()), plain(pair.getValue()))).toList());
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
        return plain instanceof Map<?, ?> map ? mapped(map) : plain;
    }

    private static Object mapped(Map<?, ?> map) {
        if (map.get("$bytes") instanceof String text) {
            return Base64.getDecoder().decode(text);
        }
        if (map.get("$float") instanceof String text) {
            return text.equals("nan") ? Double.NaN : text.startsWith("-")
                    ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY;
        }
        if (map.get("$int") instanceof String text) {
            BigInteger number = new BigInteger(text);
            return number.bitLength() < Long.SIZE ? (Object) number.longValue() : number;
        }
        if (map.get("$timestamp") instanceof List<?> parts) {
            return Instant.ofEpochSecond((Long) parts.get(0), (Long) parts.get(1));
        }
        if (map.get("$map") instanceof List<?> pairs) {
            Map<Object, Object> values = new LinkedHashMap<>();
            pairs.forEach(pair -> values.put(value(((List<?>) pair).get(0)), value(((List<?>) pair).get(1))));
            return values;
        }
        Map<Object, Object> values = new LinkedHashMap<>();
        map.forEach((key, item) -> values.put(key, value(item)));
        return values;
    }
}
