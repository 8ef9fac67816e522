package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import speed.errors.WireException;

/** Fields that several payloads share, read with their checks. */
final class Payloads {
    private Payloads() {}

    static String text(Map<Object, Object> fields, String name) {
        if (fields.get(name) instanceof String text) {
            return text;
        }
        throw new WireException("BAD_PAYLOAD", name + " is no text");
    }

    static String requestId(Map<Object, Object> fields) {
        String requestId = text(fields, "requestId");
        if (!isRequestId(requestId)) {
            throw new WireException("BAD_PAYLOAD", "requestId is no text of 1 to 64 bytes");
        }
        return requestId;
    }

    static boolean isRequestId(String text) {
        int bytes = text.getBytes(StandardCharsets.UTF_8).length;
        return bytes > 0 && bytes <= Limits.MAX_REQUEST_ID_BYTES;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> textKeys(Object value, String name) {
        if (!(value instanceof Map<?, ?> map) || !map.keySet().stream().allMatch(String.class::isInstance)) {
            throw new WireException("BAD_PAYLOAD", name + " is no map with text keys");
        }
        return (Map<String, Object>) map;
    }
}
