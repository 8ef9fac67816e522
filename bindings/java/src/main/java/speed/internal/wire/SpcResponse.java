package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.UnserialisableException;
import speed.errors.WireException;

/** One SPC_RESPONSE payload; {@code errorCode} is null for a success, the other fields then say nothing. */
public record SpcResponse(String requestId, Object result, String errorCode, String errorMessage, Map<?, ?> details) {
    private static final String REPLACED = "REPLACED";
    private static final int MOST_REPLACED_BYTES = 1024;

    public static SpcResponse success(String requestId, Object result) {
        return new SpcResponse(requestId, result, null, "", Map.of());
    }

    /** An error, whatever a program made of it: no code is INTERNAL_ERROR, a text is cut, null is nothing. */
    public static SpcResponse error(String requestId, String code, String message, Map<?, ?> details) {
        return new SpcResponse(
                requestId,
                null,
                code == null || code.isEmpty() ? "INTERNAL_ERROR" : code,
                Values.shortened(message),
                details == null ? Map.of() : details);
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
        fields.put("errorCode", Values.wellFormed(errorCode));
        fields.put("errorMessage", Values.wellFormed(errorMessage));
        if (details.isEmpty()) {
            return Values.encode(fields, "response");
        }
        fields.put("details", details);
        try {
            if (Values.encode(details, "details").length <= Limits.MAX_DETAILS_BYTES) {
                return Values.encode(fields, "response");
            }
            return withoutDetails("they are too large");
        } catch (UnserialisableException unsendable) {
            return withoutDetails(unsendable.getMessage());
        }
    }

    /** The error itself matters more than what it carries. */
    private byte[] withoutDetails(String why) {
        String note = " (its details were left out: " + why + ")";
        int room = Limits.MAX_ERROR_CHARACTERS - note.codePointCount(0, note.length());
        return error(requestId, errorCode, Values.shortened(errorMessage, Math.max(0, room)) + note, Map.of())
                .encode();
    }

    /** Whether a response says that its request was for another generation of the node. */
    public static boolean saysReplaced(byte[] payload) {
        if (payload.length > MOST_REPLACED_BYTES
                || !new String(payload, StandardCharsets.ISO_8859_1).contains(REPLACED)) {
            return false;
        }
        try {
            return REPLACED.equals(decode(payload).errorCode);
        } catch (WireException broken) {
            return false;
        }
    }

    /** The id that a response begins with; BAD_PAYLOAD if it begins with anything else. */
    public static String readId(byte[] payload) {
        String requestId = SpcHead.readableId(payload);
        if (requestId == null) {
            throw new WireException("BAD_PAYLOAD", "a response does not begin with a requestId of 1 to 64 bytes");
        }
        return requestId;
    }

    /** Checks and reads a payload; BAD_PAYLOAD names the field. */
    public static SpcResponse decode(byte[] payload) {
        return decode(payload, false);
    }

    /** The same; with {@code views} large bytes are views of the payload. */
    public static SpcResponse decode(byte[] payload, boolean views) {
        String requestId = readId(payload);
        Map<Object, Object> fields = ValueReader.decodeMap(payload, "response", views);
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
        return new SpcResponse(requestId, null, code, message, details == null ? Map.of() : (Map<?, ?>) details);
    }
}
