package speed.internal.engine.call;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import speed.errors.SpeedException;
import speed.internal.core.Family;
import speed.internal.core.Family.RetryBudget;
import speed.internal.engine.Context;
import speed.internal.engine.threads.Futures;
import speed.internal.engine.threads.WorkerPool;
import speed.options.Retry;

/** Calls that are tried again: what was not begun always, what may have run only where it may run twice (S-41). Thread-safe. */
public final class Retries {
    private static final double VARIATION = 0.2;
    private static final long NEVER = -1;

    private final Context context;
    private final WorkerPool pool;
    private final Futures futures;
    private final Map<String, RetryBudget> budgets = new ConcurrentHashMap<>();

    public Retries(Context context, WorkerPool pool, Futures futures) {
        this.context = context;
        this.pool = pool;
        this.futures = futures;
    }

    /** The result of the first attempt that succeeds, within the timeout; throws the error of the last one. */
    public Object repeated(String target, Duration timeout, Retry retry, Function<Duration, Object> attempt) {
        Attempts attempts = new Attempts(budget(target), timeout, retry);
        while (true) {
            try {
                Object result = attempt.apply(attempts.left());
                attempts.succeeded();
                return result;
            } catch (SpeedException failure) {
                long pause = attempts.pauseAfter(failure);
                if (pause == NEVER) {
                    throw failure;
                }
                pause(pause);
            }
        }
    }

    /** The same of a call that goes on: the first attempt is made at once, further ones on threads of futures. */
    public CompletableFuture<Object> submitted(
            String target, Duration timeout, Retry retry, Function<Duration, CompletableFuture<Object>> attempt) {
        RepeatedCall call = new RepeatedCall(new Attempts(budget(target), timeout, retry), attempt);
        call.attempt();
        return call;
    }

    /** Whether a second node may be asked beside the first; that costs as much as a failure. */
    public boolean mayHedge(String target, Retry retry) {
        return budget(target).failed() || retry.budget() == 0;
    }

    /** Has a future do something after a time, unless it has ended. */
    public void after(Duration time, CompletableFuture<Object> future, Runnable task) {
        runAt(System.nanoTime() + time.toNanos(), () -> {
            if (!future.isDone()) {
                task.run();
            }
        });
    }

    private void runAt(long time, Runnable task) {
        futures.addAt(time, task);
        context.wakeBy(time);
    }

    private RetryBudget budget(String target) {
        return budgets.computeIfAbsent(target, any -> new RetryBudget());
    }

    /** What waits holds no place (T-3). */
    private void pause(long nanos) {
        if (pool.blocking(() -> context.awaitStop(nanos))) {
            context.checkOpen();
        }
    }

    /** The attempts of one call. For one thread at a time. */
    private static final class Attempts {
        private final RetryBudget budget;
        private final Retry retry;
        private final long deadline;
        private int made;

        Attempts(RetryBudget budget, Duration timeout, Retry retry) {
            this.budget = budget;
            this.retry = retry;
            deadline = System.nanoTime() + timeout.toNanos();
        }

        /** For the next one. */
        Duration left() {
            return Duration.ofNanos(Math.max(0, deadline - System.nanoTime()));
        }

        void succeeded() {
            budget.succeeded(retry.budget());
        }

        /** How long to wait before the next one, in nanoseconds; NEVER where none is made. */
        long pauseAfter(SpeedException failure) {
            made++;
            if (!Family.mayRepeat(failure.code(), failure.execution(), retry.idempotent())) {
                return NEVER;
            }
            boolean hasBudget = budget.failed() || retry.budget() == 0;
            long pause = varied(Family.backoffNanos(retry.backoff().toNanos(), made));
            boolean isOver = !hasBudget || made >= retry.attempts() || System.nanoTime() + pause - deadline >= 0;
            return isOver ? NEVER : pause;
        }

        /** So that callers do not come all at once. */
        private static long varied(long nanos) {
            return (long) (nanos
                    * (1
                            - VARIATION
                            + 2 * VARIATION * ThreadLocalRandom.current().nextDouble()));
        }
    }

    /** A call that goes on, and is tried again where that may help: one attempt after the other. */
    private final class RepeatedCall extends CompletableFuture<Object> {
        private final Attempts attempts;
        private final Function<Duration, CompletableFuture<Object>> attempt;
        private volatile CompletableFuture<Object> present;
        private volatile boolean isWithdrawn;

        RepeatedCall(Attempts attempts, Function<Duration, CompletableFuture<Object>> attempt) {
            this.attempts = attempts;
            this.attempt = attempt;
        }

        void attempt() {
            CompletableFuture<Object> asked;
            try {
                context.checkOpen();
                asked = attempt.apply(attempts.left());
            } catch (RuntimeException | Error failure) {
                failed(failure);
                return;
            }
            present = asked;
            if (isWithdrawn) {
                asked.cancel(false);
            }
            asked.whenComplete((result, error) -> {
                if (error == null) {
                    attempts.succeeded();
                    complete(result);
                } else {
                    failed(error);
                }
            });
        }

        private void failed(Throwable error) {
            long pause =
                    isWithdrawn || !(error instanceof SpeedException failure) ? NEVER : attempts.pauseAfter(failure);
            if (pause == NEVER) {
                completeExceptionally(error);
                return;
            }
            runAt(System.nanoTime() + pause, () -> {
                if (isWithdrawn) {
                    completeExceptionally(error);
                } else {
                    attempt();
                }
            });
        }

        /** Withdraws the call: it ends as its server says, and is not tried again. */
        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            isWithdrawn = true;
            CompletableFuture<Object> asked = present;
            if (asked != null) {
                asked.cancel(mayInterruptIfRunning);
            }
            return isCancelled();
        }
    }
}
