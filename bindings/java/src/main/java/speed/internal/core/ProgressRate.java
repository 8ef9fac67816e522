package speed.internal.core;

import speed.internal.wire.Limits;

/** Whether a report of progress is written: seldom enough to cost nothing (S-32). Not locked itself. */
public final class ProgressRate {
    private static final long PAUSE_NANOS = (long) (Limits.PROGRESS_SECONDS * 1e9);

    private boolean hasTold;
    private long next;

    /**
     * Counts a report as written, if it is time for one or it is the last.
     *
     * @param total null where nobody knows it
     * @param now monotonic
     */
    public boolean takes(double done, Double total, long now) {
        boolean isLast = total != null && done == total;
        if (hasTold && now - next < 0 && !isLast) {
            return false;
        }
        hasTold = true;
        next = now + PAUSE_NANOS;
        return true;
    }
}
