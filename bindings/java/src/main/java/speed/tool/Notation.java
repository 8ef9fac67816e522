package speed.tool;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Values as the vectors note them (registry_spec/README.md): what JSON lacks is an object with one key. */
public final class Notation {
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
            default -> members((List<?>) only.getValue());
        };
    }

    /** A Long where it fits. */
    static Object integer(String digits) {
        BigInteger number = new BigInteger(digits);
        return number.bitLength() < Long.SIZE ? (Object) number.longValue() : number;
    }

    static Instant instant(List<?> time) {
        return Instant.ofEpochSecond(Long.parseLong(time.get(0).toString()), Long.parseLong(time.get(1).toString()));
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
