package speed.runtime;

import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import speed.core.PendingCalls.Outcome;

/**
 * Futures whose calls ended, until they are completed (S-7): in the order in which they came, never under the role.
 *
 * <p>One task of the {@link WorkerPool} completes many. But all workers may wait for futures, and what the program hung
 * on one may wait for the next: where the oldest stays over a tick of the {@link Relief}, a helper completes them, a
 * thread outside the pool. The more helpers are held up already, the longer it takes until there is one more.
 * Thread-safe.
 */
final class Futures {
    /** After so long in one task, answers and lanes have their turn. */
    private static final long SLICE_NANOS = 500_000;
    private static final int MOST_HELPERS = 256;
    private static final long IDLE_SECONDS = 1;

    private record Ended(CompletableFuture<Object> future, Outcome outcome) implements Runnable {
        @Override
        public void run() {
            if (outcome.error() != null) {
                future.completeExceptionally(outcome.error());
            } else {
                future.complete(outcome.result());
            }
        }
    }

    private final WorkerPool pool;
    private final Queue<Runnable> ended = new ConcurrentLinkedQueue<>();
    private final Runnable task = this::completeSome;
    private final AtomicBoolean isQueued = new AtomicBoolean();
    private final ThreadPoolExecutor helpers;
    private Runnable oldest;
    private int ticks;

    Futures(WorkerPool pool, String name) {
        this.pool = pool;
        AtomicInteger number = new AtomicInteger();
        helpers = new ThreadPoolExecutor(0, MOST_HELPERS, IDLE_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(),
                work -> {
                    Thread helper = new Thread(work, "speed-" + name + "-futures-" + number.incrementAndGet());
                    helper.setDaemon(true);
                    return helper;
                }, new ThreadPoolExecutor.DiscardPolicy());
    }

    /** Has a future completed soon, by another thread or after the present turn. */
    void complete(CompletableFuture<Object> future, Outcome outcome) {
        ended.add(new Ended(future, outcome));
        if (pool.isStopping()) {
            help(); // no task is run any more
        } else {
            queue();
        }
    }

    boolean isEmpty() {
        return ended.isEmpty();
    }

    private void queue() {
        if (!isQueued.get() && isQueued.compareAndSet(false, true)) {
            pool.queue(task);
        }
    }

    private void completeSome() {
        isQueued.set(false);
        long began = System.nanoTime();
        for (Runnable next = ended.poll(); next != null; next = ended.poll()) {
            pool.enter();
            pool.tasks().run(next);
            if (System.nanoTime() - began > SLICE_NANOS) {
                queue();
                return;
            }
        }
    }

    // --- helpers ---

    /** Only for the relief, at each of its ticks: whether the oldest is still the same. */
    void look() {
        Runnable first = ended.peek();
        ticks = first != null && first == oldest ? ticks + 1 : 0;
        oldest = first;
        if (ticks > 0 && ticks > helpers.getActiveCount()) {
            help();
        }
    }

    /** Has one more helper complete what is there, if anything is. */
    void help() {
        if (!ended.isEmpty()) {
            helpers.execute(this::completeAll);
        }
    }

    private void completeAll() {
        for (Runnable next = ended.poll(); next != null; next = ended.poll()) {
            pool.tasks().run(next);
        }
    }
}
