package speed.internal.wire;

import java.util.Map;
import speed.errors.WireException;

/**
 * What stands before the arguments of an SPC_REQUEST, and all that the thread that reads lanes decodes of it.
 *
 * @param generation of the receiver that the request is for: no other begins it
 * @param deadlineMs Unix ms
 * @param bootId of the boot whose clock {@code bootDeadlineMs} counts on; empty where the caller did not say
 * @param bootDeadlineMs the same moment, in ms of CLOCK_BOOTTIME
 * @param traceparent may be null
 * @param repeated whether an earlier generation may have run it
 * @param stream what travels beside the call; null for nothing
 * @param argumentsAt byte of the payload at which the arguments begin
 */
public record SpcHead(
        String requestId,
        String service,
        String caller,
        int generation,
        long deadlineMs,
        String bootId,
        long bootDeadlineMs,
        String traceparent,
        boolean repeated,
        StreamOffer stream,
        int argumentsAt) {
    /** A first key and an id of the longest kind lie within so many bytes. */
    private static final int ID_BYTES = 256;

    private static final int MAX_GENERATION = (1 << Limits.GENERATION_BITS) - 1;

    /** Checks and reads a head; BAD_PAYLOAD names the field. */
    public static SpcHead decode(byte[] payload) {
        ValueReader.Head head = ValueReader.decodeHead(payload, "arguments", Limits.MAX_HEAD_BYTES, "request");
        Map<Object, Object> fields = head.fields();
        String service = Payloads.text(fields, "service");
        String caller = Payloads.text(fields, "caller");
        if (!Names.isService(service) || !Names.isNode(caller)) {
            throw new WireException("BAD_PAYLOAD", "service or caller is no name");
        }
        String bootId = fields.get("bootId") == null ? null : Payloads.text(fields, "bootId");
        Long bootDeadline = fields.get("bootDeadline") == null ? null : time(fields, "bootDeadline");
        boolean onBoot = bootId != null && bootDeadline != null; // each is checked where it stands alone, too
        return new SpcHead(
                Payloads.requestId(fields),
                service,
                caller,
                generation(fields),
                time(fields, "deadline"),
                onBoot ? bootId : "",
                onBoot ? bootDeadline : 0,
                fields.get("traceparent") == null ? null : Payloads.text(fields, "traceparent"),
                isRepeated(fields),
                StreamOffer.decode(fields.get("stream")),
                head.at());
    }

    private static int generation(Map<Object, Object> fields) {
        if (fields.get("generation") instanceof Long generation && generation >= 1 && generation <= MAX_GENERATION) {
            return generation.intValue();
        }
        throw new WireException("BAD_PAYLOAD", "generation is none of a node");
    }

    private static boolean isRepeated(Map<Object, Object> fields) {
        Object repeated = fields.get("repeated");
        if (repeated == null || repeated instanceof Boolean) {
            return Boolean.TRUE.equals(repeated);
        }
        throw new WireException("BAD_PAYLOAD", "repeated is no boolean");
    }

    private static long time(Map<Object, Object> fields, String name) {
        if (fields.get(name) instanceof Long time && time >= 0) {
            return time;
        }
        throw new WireException("BAD_PAYLOAD", name + " is no time in ms");
    }

    /**
     * The arguments of the payload that this is the head of; BAD_PAYLOAD unless they are a map with text keys.
     *
     * @param views whether large bytes are views of the payload
     */
    public Map<String, Object> arguments(byte[] payload, boolean views) {
        Object value = ValueReader.decode(payload, argumentsAt, payload.length - argumentsAt, "arguments", 1, views);
        return Payloads.textKeys(value, "arguments");
    }

    /** The id that a request or response begins with; null if it begins with anything else. */
    public static String readableId(byte[] payload) {
        String requestId = ValueReader.firstText(payload, "requestId", ID_BYTES);
        return requestId == null || !Payloads.isRequestId(requestId) ? null : requestId;
    }
}
