package speed.internal.wire;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.UnserialisableException;

/**
 * One SPC_REQUEST payload: its head first, its arguments last.
 *
 * @param generation of the receiver that the request is for: no other begins it
 * @param deadlineMs Unix ms
 * @param bootId of the boot whose clock {@code bootDeadlineMs} counts on; empty for none
 * @param bootDeadlineMs the same moment, in ms of CLOCK_BOOTTIME
 * @param traceparent may be null
 * @param repeated whether an earlier generation may have run it
 * @param stream what travels beside the call; null for nothing
 */
public record SpcRequest(
        String requestId,
        String service,
        Map<String, Object> arguments,
        String caller,
        int generation,
        long deadlineMs,
        String bootId,
        long bootDeadlineMs,
        String traceparent,
        boolean repeated,
        StreamOffer stream) {
    /** A request beside which nothing travels. */
    public SpcRequest(
            String requestId,
            String service,
            Map<String, Object> arguments,
            String caller,
            int generation,
            long deadlineMs,
            String bootId,
            long bootDeadlineMs,
            String traceparent,
            boolean repeated) {
        this(
                requestId,
                service,
                arguments,
                caller,
                generation,
                deadlineMs,
                bootId,
                bootDeadlineMs,
                traceparent,
                repeated,
                null);
    }

    /** The payload; UnserialisableException names the argument. */
    public byte[] encode() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", requestId);
        fields.put("service", service);
        fields.put("caller", caller);
        fields.put("generation", generation);
        fields.put("deadline", deadlineMs);
        if (!bootId.isEmpty()) {
            fields.put("bootId", bootId);
            fields.put("bootDeadline", bootDeadlineMs);
        }
        if (traceparent != null) {
            fields.put("traceparent", traceparent);
        }
        if (stream != null) {
            fields.put("stream", stream.travelling());
        }
        if (repeated) {
            fields.put("repeated", true);
        }
        fields.put("arguments", arguments);
        try {
            return Values.encode(fields, "request");
        } catch (UnserialisableException error) {
            String message = error.getMessage();
            throw new UnserialisableException(message.startsWith("request.") ? message.substring(8) : message);
        }
    }

    /** The same request for another generation of its receiver; {@code isRepeated}: an earlier one may have run it. */
    public static byte[] readdressed(byte[] payload, int generation, boolean isRepeated) {
        SpcHead head = SpcHead.decode(payload);
        byte[] front = new SpcRequest(
                        head.requestId(),
                        head.service(),
                        Map.of(),
                        head.caller(),
                        generation,
                        head.deadlineMs(),
                        head.bootId(),
                        head.bootDeadlineMs(),
                        head.traceparent(),
                        isRepeated || head.repeated(),
                        head.stream())
                .encode();
        int begins = front.length - 1; // the last byte is the empty map of arguments
        byte[] whole = Arrays.copyOf(front, begins + payload.length - head.argumentsAt());
        System.arraycopy(payload, head.argumentsAt(), whole, begins, payload.length - head.argumentsAt());
        return whole;
    }

    /** Checks and reads a payload; BAD_PAYLOAD names the field. */
    public static SpcRequest decode(byte[] payload) {
        SpcHead head = SpcHead.decode(payload);
        return new SpcRequest(
                head.requestId(),
                head.service(),
                head.arguments(payload, false),
                head.caller(),
                head.generation(),
                head.deadlineMs(),
                head.bootId(),
                head.bootDeadlineMs(),
                head.traceparent(),
                head.repeated(),
                head.stream());
    }
}
