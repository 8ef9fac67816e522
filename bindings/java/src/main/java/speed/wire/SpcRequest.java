package speed.wire;

import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.UnserialisableException;
import speed.errors.WireException;

/** One SPC_REQUEST payload (S-1); the deadline is Unix ms, traceparent may be null. */
public record SpcRequest(
        String requestId,
        String service,
        Map<String, Object> arguments,
        String caller,
        long deadlineMs,
        String traceparent) {

    /** The payload; UnserialisableException names the argument. */
    public byte[] encode() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", requestId);
        fields.put("service", service);
        fields.put("arguments", arguments);
        fields.put("caller", caller);
        fields.put("deadline", deadlineMs);
        if (traceparent != null) {
            fields.put("traceparent", traceparent);
        }
        try {
            return Values.encode(fields, "request");
        } catch (UnserialisableException error) {
            String message = error.getMessage();
            throw new UnserialisableException(message.startsWith("request.") ? message.substring(8) : message);
        }
    }

    /** The id of a request that breaks another rule, so that its caller can be told; null if it has none (S-2). */
    public static String readableId(byte[] payload) {
        try {
            return Payloads.requestId(ValueReader.decodeMap(payload, "request"));
        } catch (WireException unreadable) {
            return null;
        }
    }

    /** Checks and reads a payload; BAD_PAYLOAD names the field. */
    public static SpcRequest decode(byte[] payload) {
        Map<Object, Object> fields = ValueReader.decodeMap(payload, "request");
        String service = Payloads.text(fields, "service");
        String caller = Payloads.text(fields, "caller");
        if (!Names.isService(service) || !Names.isNode(caller)) {
            throw new WireException("BAD_PAYLOAD", "service or caller is no name");
        }
        if (!(fields.get("deadline") instanceof Long deadline) || deadline < 0) {
            throw new WireException("BAD_PAYLOAD", "deadline is no Unix time in ms");
        }
        String traceparent = fields.get("traceparent") == null ? null : Payloads.text(fields, "traceparent");
        return new SpcRequest(Payloads.requestId(fields), service, Payloads.textKeys(fields.get("arguments"),
                "arguments"), caller, deadline, traceparent);
    }
}
