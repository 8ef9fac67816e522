package speed.internal.wire;

import java.math.BigInteger;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.errors.WireException;
import speed.internal.wire.Header.EnvelopeType;

/** Payloads of ACK, HEARTBEAT, DISCOVERY and ERROR envelopes: small msgpack maps. */
public final class Control {
    private Control() {}

    /** Whether a question is one that an observer may ask without a grant: a ping, or for figures. */
    public static boolean isLook(EnvelopeType type, Map<?, ?> body) {
        return type == EnvelopeType.HEARTBEAT || type == EnvelopeType.DISCOVERY && "STATS".equals(body.get("op"));
    }

    /** The payload of a control envelope. */
    public static byte[] encode(Map<String, Object> body) {
        return Values.encode(body, "control payload");
    }

    /** An acknowledgement of the envelope with this sequence, handled already or waiting for its program. */
    public static byte[] encodeAck(long sequence, boolean waiting) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("sequence", unsigned(sequence));
        if (waiting) {
            body.put("waiting", true);
        }
        return encode(body);
    }

    /** The requests that a WITHDRAW names. */
    public static List<String> requestIds(Map<Object, Object> body) {
        boolean isList = body.get("requestIds") instanceof List<?> ids
                && !ids.isEmpty()
                && ids.size() <= Limits.MAX_WITHDRAWN_IDS
                && ids.stream().allMatch(id -> id instanceof String text && Payloads.isRequestId(text));
        if (!isList) {
            throw new WireException("BAD_PAYLOAD", "requestIds names no 1 to 64 requests");
        }
        return ((List<?>) body.get("requestIds"))
                .stream().map(String.class::cast).toList();
    }

    /** An ERROR about the envelope with this sequence; any message can be sent. */
    public static byte[] encodeError(String code, String message, long sequence) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("errorCode", code);
        body.put("errorMessage", Values.wellFormed(Values.shortened(message)));
        body.put("sequence", unsigned(sequence));
        return encode(body);
    }

    /** Checks and reads a control payload; requestId and sequence have their kinds if present. */
    public static Map<Object, Object> decode(byte[] payload) {
        return decode(payload, Limits.MAX_CONTROL_BYTES);
    }

    /** The same; one of more bytes is refused unread: everybody waits for the thread that decodes it. */
    public static Map<Object, Object> decode(byte[] payload, int mostBytes) {
        if (payload.length > mostBytes) {
            throw new WireException(
                    "BAD_PAYLOAD", "a control payload of " + payload.length + " bytes; the limit is " + mostBytes);
        }
        Map<Object, Object> body = ValueReader.decodeMap(payload, "control payload");
        if (body.get("requestId") != null) {
            Payloads.requestId(body);
        }
        Object sequence = body.get("sequence");
        boolean isUnsigned = sequence instanceof Long number && number >= 0 || sequence instanceof BigInteger;
        if (sequence != null && !isUnsigned) {
            throw new WireException("BAD_PAYLOAD", "sequence is no 64-bit integer");
        }
        return body;
    }

    /** The sequence that an ACK or ERROR names. */
    public static long sequence(Map<Object, Object> body) {
        if (body.get("sequence") instanceof Number sequence) {
            return sequence.longValue();
        }
        throw new WireException("BAD_PAYLOAD", "an ACK names no sequence");
    }

    private static Object unsigned(long sequence) {
        return sequence >= 0 ? (Object) sequence : new BigInteger(Long.toUnsignedString(sequence));
    }
}
