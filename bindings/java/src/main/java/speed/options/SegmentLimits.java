package speed.options;

import java.time.Duration;
import speed.internal.wire.Limits;
import speed.internal.wire.Require;

/**
 * Bounds of what is kept of payloads that come in segments.
 *
 * @param payloadBytes largest payload
 * @param reconstructions payloads that are put together at a time
 * @param senderReconstructions the same of one sender
 * @param bufferedBytes of segments held by them
 * @param senderBufferedBytes the same of one sender
 * @param completions payloads known to be complete, so that they are not delivered again
 * @param senderCompletions the same of one sender
 * @param idle after which a payload is given up that gets no new segment
 * @param total after which a payload is given up that is not complete
 * @param completion how long a complete payload is remembered
 */
public record SegmentLimits(
        long payloadBytes,
        int reconstructions,
        int senderReconstructions,
        long bufferedBytes,
        long senderBufferedBytes,
        int completions,
        int senderCompletions,
        Duration idle,
        Duration total,
        Duration completion) {
    /** Those of {@code limits.json}. */
    public static final SegmentLimits DEFAULT = new SegmentLimits(
            Limits.MAX_SEGMENTED_BYTES,
            Limits.MAX_RECONSTRUCTIONS,
            Limits.MAX_SENDER_RECONSTRUCTIONS,
            Limits.MAX_BUFFERED_BYTES,
            Limits.MAX_SENDER_BUFFERED_BYTES,
            Limits.MAX_COMPLETIONS,
            Limits.MAX_SENDER_COMPLETIONS,
            seconds(Limits.RECONSTRUCTION_IDLE_SECONDS),
            seconds(Limits.RECONSTRUCTION_SECONDS),
            seconds(Limits.COMPLETION_SECONDS));

    /**
     * Checks the times; one that is too long to be counted is for ever.
     *
     * @param payloadBytes largest payload
     * @param reconstructions payloads that are put together at a time
     * @param senderReconstructions the same of one sender
     * @param bufferedBytes of segments held by them
     * @param senderBufferedBytes the same of one sender
     * @param completions payloads known to be complete, so that they are not delivered again
     * @param senderCompletions the same of one sender
     * @param idle after which a payload is given up that gets no new segment
     * @param total after which a payload is given up that is not complete
     * @param completion how long a complete payload is remembered
     * @throws speed.errors.ConfigurationException for a time that is null
     */
    public SegmentLimits {
        idle = Require.timeout(idle);
        total = Require.timeout(total);
        completion = Require.timeout(completion);
    }

    private static Duration seconds(double seconds) {
        return Duration.ofMillis((long) (seconds * 1000));
    }
}
