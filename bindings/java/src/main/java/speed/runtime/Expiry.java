package speed.runtime;

import speed.core.Log;

/** What becomes of a message that expired behind others, or while nothing took it. */
final class Expiry {
    private static final Log LOG = new Log("speed.messages");

    private Expiry() {}

    /** Counts it and tells its sender; whoever calls this finishes it. */
    static void refuse(Context context, SomeLines lines, Arrival arrival) {
        context.stats.count("messages_expired");
        lines.warnOnceAMinute(LOG, "a message of {} expired before it was handled", arrival.source());
        arrival.refuse("EXECUTION_FAILED", "the message expired before it was handled");
    }
}
