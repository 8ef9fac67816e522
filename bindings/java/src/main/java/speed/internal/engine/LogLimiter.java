package speed.internal.engine;

import java.util.HashMap;
import java.util.Map;
import speed.internal.GuardedBy;
import speed.internal.core.Log;

/** Lines of a log of which others decide how many there are: one of each kind in ten seconds. Thread-safe. */
public final class LogLimiter {
    private static final long PAUSE_NANOS = 10_000_000_000L;
    private static final long MINUTE_NANOS = 60_000_000_000L;

    private static final class Kind {
        private long nextAt;
        private long leftOut;
    }

    @GuardedBy("this")
    private final Map<String, Kind> kinds = new HashMap<>();

    /** Logs a warning, or counts it for the next one of its kind. */
    public void warn(Log log, String format, Object... values) {
        warn(PAUSE_NANOS, log, format, values);
    }

    /** The same for what may go on for long. */
    public void warnEachMinute(Log log, String format, Object... values) {
        warn(MINUTE_NANOS, log, format, values);
    }

    private void warn(long pause, Log log, String format, Object... values) {
        long leftOut = leftOut(format, pause);
        if (leftOut == 0) {
            log.warn(format, values);
        } else if (leftOut > 0) {
            Object[] all = java.util.Arrays.copyOf(values, values.length + 1);
            all[values.length] = leftOut;
            log.warn(format + " ({} more like this were left out)", all);
        }
    }

    /** How many of a kind were left out before this one; -1 if this one is left out as well. */
    private synchronized long leftOut(String kind, long pause) {
        Kind known = kinds.computeIfAbsent(kind, any -> new Kind());
        long now = System.nanoTime();
        if (known.nextAt != 0 && now - known.nextAt < 0) {
            known.leftOut++;
            return -1;
        }
        long before = known.leftOut;
        known.nextAt = now + pause;
        known.leftOut = 0;
        return before;
    }
}
