package speed.internal.wire;

import java.math.BigInteger;
import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.WireException;

/**
 * What is known of a message or event that could not be handled.
 *
 * @param type MESSAGE or EVENT
 * @param sequence of its envelope, unsigned
 * @param timestampMs of its envelope
 * @param deliveries how often it was begun
 * @param diedAtMs when it was given up, Unix ms
 * @param payloadBytes of what its envelopes carried
 */
public record DeadLetter(
        String type,
        String source,
        long sequence,
        long timestampMs,
        long deliveries,
        String errorCode,
        String errorMessage,
        long diedAtMs,
        long payloadBytes) {

    /** The first chunk of its file, as it is before it is sealed. */
    byte[] encode() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("type", type);
        fields.put("source", source);
        fields.put("sequence", sequence >= 0 ? (Object) sequence : new BigInteger(Long.toUnsignedString(sequence)));
        fields.put("timestamp", timestampMs);
        fields.put("deliveries", deliveries);
        fields.put("errorCode", errorCode);
        fields.put("errorMessage", Values.wellFormed(errorMessage));
        fields.put("diedAt", diedAtMs);
        fields.put("payloadBytes", payloadBytes);
        return Values.encode(fields, "dead letter");
    }

    /** Checks and reads such a chunk. */
    static DeadLetter decode(byte[] chunk) {
        Map<Object, Object> fields = ValueReader.decodeMap(chunk, "dead letter");
        String type = Payloads.text(fields, "type");
        long payloadBytes = number(fields, "payloadBytes");
        if (!type.equals("MESSAGE") && !type.equals("EVENT")) {
            throw new WireException("BAD_PAYLOAD", "a dead letter that was neither a message nor an event");
        }
        if (payloadBytes < 0 || payloadBytes > Limits.MAX_SEGMENTED_BYTES) {
            throw new WireException("BAD_PAYLOAD", "a dead letter says that its payload is larger than any");
        }
        return new DeadLetter(
                type,
                Payloads.text(fields, "source"),
                number(fields, "sequence"),
                number(fields, "timestamp"),
                number(fields, "deliveries"),
                Payloads.text(fields, "errorCode"),
                Payloads.text(fields, "errorMessage"),
                number(fields, "diedAt"),
                payloadBytes);
    }

    private static long number(Map<Object, Object> fields, String name) {
        Object value = fields.get(name);
        if (value instanceof Long number && number >= 0 || value instanceof BigInteger) {
            return ((Number) value).longValue();
        }
        throw new WireException("BAD_PAYLOAD", name + " of a dead letter is no number");
    }
}
