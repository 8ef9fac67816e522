package speed.internal.engine.link;

import java.util.List;
import speed.internal.wire.EnvelopeType;

/** One type, flags, and payloads that leave together; the deadline bounds the wait for room. */
public record Load(EnvelopeType type, int flags, List<byte[]> payloads, long deadlineNanos) {
    private static final long URGENT = Long.MIN_VALUE;

    public static Load of(EnvelopeType type, int flags, byte[] payload, long deadlineNanos) {
        return new Load(type, flags, List.of(payload), deadlineNanos);
    }

    /** A load that never waits for room. */
    public static Load urgent(EnvelopeType type, int flags, List<byte[]> payloads) {
        return new Load(type, flags, payloads, URGENT);
    }

    boolean isCall() {
        return type == EnvelopeType.SPC_REQUEST || type == EnvelopeType.SPC_RESPONSE;
    }

    boolean isUrgent() {
        return deadlineNanos == URGENT;
    }
}
