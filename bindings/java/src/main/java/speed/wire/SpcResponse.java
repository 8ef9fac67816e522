package speed.wire;

import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.UnserialisableException;
import speed.errors.WireException;

/** One SPC_RESPONSE payload (S-2); {@code errorCode} is null for a success, the other fields then say nothing. */
public record SpcResponse(
        String requestId, Object result, String errorCode, String errorMessage, Map<?, ?> details) {

    public static SpcResponse success(String requestId, Object result) {
        return new SpcResponse(requestId, result, null, "", Map.of());
    }

    public static SpcResponse error(String requestId, String code, String message, Map<?, ?> details) {
        return new SpcResponse(requestId, null, code, message, details);
    }

    public boolean isSuccess() {
        return errorCode == null;
    }

    /** The payload; UnserialisableException for a result without representation. */
    public byte[] encode() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", requestId);
        fields.put("status", isSuccess() ? "SUCCESS" : "ERROR");
        if (isSuccess()) {
            fields.put("result", result);
            return Values.encode(fields, "response");
        }
        fields.put("errorCode", errorCode);
        fields.put("errorMessage", Values.wellFormed(errorMessage));
        if (!details.isEmpty()) {
            try {
                Values.encode(details, "details");
                fields.put("details", details);
            } catch (UnserialisableException unsendable) {
                // the error itself matters more than what it carries
            }
        }
        return Values.encode(fields, "response");
    }

    /** Checks and reads a payload; BAD_PAYLOAD names the field. */
    public static SpcResponse decode(byte[] payload) {
        Map<Object, Object> fields = ValueReader.decodeMap(payload, "response");
        String requestId = Payloads.requestId(fields);
        Object status = fields.get("status");
        if ("SUCCESS".equals(status)) {
            return success(requestId, fields.get("result"));
        }
        if (!"ERROR".equals(status)) {
            throw new WireException("BAD_PAYLOAD", "status is neither SUCCESS nor ERROR");
        }
        String code = Payloads.text(fields, "errorCode");
        String message = fields.containsKey("errorMessage") ? Payloads.text(fields, "errorMessage") : "";
        Object details = fields.get("details");
        if (code.isEmpty() || details != null && !(details instanceof Map<?, ?>)) {
            throw new WireException("BAD_PAYLOAD", "errorCode is empty, or details is no map");
        }
        return error(requestId, code, message, details == null ? Map.of() : (Map<?, ?>) details);
    }
}
