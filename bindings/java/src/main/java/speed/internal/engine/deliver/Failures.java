package speed.internal.engine.deliver;

import speed.errors.WireException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.core.Work;
import speed.internal.engine.Context;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.lane.Arrival;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.engine.threads.WorkerPool.Job;
import speed.internal.wire.Limits;
import speed.options.OnError;

/** What becomes of messages that failed: tried again, kept as dead letters, or dropped. Thread-safe. */
public final class Failures {
    private static final Log LOG = new Log("speed.messages");
    private static final long FIRST_NANOS = (long) (Limits.RETRY_FIRST_SECONDS * 1e9);
    private static final long MOST_NANOS = (long) (Limits.RETRY_MOST_SECONDS * 1e9);

    private final Context context;
    private final WorkerPool pool;
    private final DeadLetterBox letters;
    private final LogLimiter lines;

    public Failures(Context context, WorkerPool pool, DeadLetterBox letters, LogLimiter lines) {
        this.context = context;
        this.pool = pool;
        this.letters = letters;
        this.lines = lines;
    }

    /** Whether something may be wrong with the world and not with the message. */
    static boolean isForTheMoment(WireException refused) {
        return refused.reason().equals("KEY_UNAVAILABLE");
    }

    /** Its handler failed: what the policy says. */
    void handlerFailed(Arrival arrival, Work<Job> work, String text) {
        boolean mayTryAgain =
                context.options.onError() == OnError.RETRY && arrival.deliveries() < context.options.maxDeliveries();
        if (mayTryAgain) {
            again(arrival, work);
        } else {
            giveUp(arrival, text, () -> again(arrival, work));
        }
    }

    /**
     * It is begun no more: its handling ended the process too often, or it failed for good.
     *
     * @param later has it tried again all the same, as long as there is no room for it among the dead letters
     */
    void giveUp(Arrival arrival, String text, Runnable later) {
        if (context.options.onError() == OnError.DROP) {
            context.stats.count(Counters.MESSAGES_DROPPED);
            lines.warn(LOG, "a message of {} was dropped: {}", arrival.source(), text);
        } else if (letters.keep(arrival, "EXECUTION_FAILED", text)) {
            context.stats.count(Counters.DEAD_LETTERS);
            lines.warn(LOG, "a message of {} is a dead letter now: {}", arrival.source(), text);
        } else {
            lines.warn(
                    LOG,
                    "there is no room for a dead letter of {}: it is tried again, see `speed dead list`",
                    arrival.source());
            later.run();
            return;
        }
        arrival.refuse("EXECUTION_FAILED", text);
        arrival.finish();
    }

    /** Handles it once more after a pause, before what came later. */
    void again(Arrival arrival, Work<Job> work) {
        long at = System.nanoTime() + pause(arrival.failed());
        pool.again(work, at);
        context.wakeBy(at);
    }

    /** Nanoseconds before a message is tried for the n-th time again. */
    static long pause(int times) {
        return times > 30 ? MOST_NANOS : Math.min(MOST_NANOS, FIRST_NANOS << times - 1);
    }
}
