package speed.internal.engine.call;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import speed.errors.SpeedException;
import speed.internal.core.Family;
import speed.internal.core.Family.RetryBudget;
import speed.internal.engine.Context;
import speed.internal.engine.threads.WorkerPool;
import speed.options.Retry;

/** Calls that are tried again: what was not begun always, what may have run only where it may run twice (S-41). Thread-safe. */
public final class Retries {
    private static final double VARIATION = 0.2;

    private final Context context;
    private final WorkerPool pool;
    private final Map<String, RetryBudget> budgets = new ConcurrentHashMap<>();

    public Retries(Context context, WorkerPool pool) {
        this.context = context;
        this.pool = pool;
    }

    /** The result of the first attempt that succeeds, within the timeout; throws the error of the last one. */
    public Object repeated(String target, Duration timeout, Retry retry, Function<Duration, Object> attempt) {
        long deadline = System.nanoTime() + timeout.toNanos();
        RetryBudget budget = budgets.computeIfAbsent(target, any -> new RetryBudget());
        for (int made = 1; ; made++) {
            try {
                Object result = attempt.apply(Duration.ofNanos(Math.max(0, deadline - System.nanoTime())));
                budget.succeeded(retry.budget());
                return result;
            } catch (SpeedException failure) {
                if (!Family.mayRepeat(failure.code(), failure.execution(), retry.idempotent())) {
                    throw failure;
                }
                boolean hasBudget = budget.failed() || retry.budget() == 0;
                long pause = varied(Family.backoffNanos(retry.backoff().toNanos(), made));
                if (!hasBudget || made >= retry.attempts() || System.nanoTime() + pause - deadline >= 0) {
                    throw failure;
                }
                pause(pause);
            }
        }
    }

    /** So that callers do not come all at once. */
    private static long varied(long nanos) {
        return (long) (nanos
                * (1 - VARIATION + 2 * VARIATION * ThreadLocalRandom.current().nextDouble()));
    }

    /** What waits holds no place (T-3). */
    private void pause(long nanos) {
        if (pool.blocking(() -> context.awaitStop(nanos))) {
            context.checkOpen();
        }
    }
}
