package speed.internal.engine.threads;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import speed.internal.core.PendingCalls.Outcome;

/**
 * One blocked thread's place for an answer. A thread that was interrupted before it asked waits all the same; every
 * interrupt is kept for later ({@link #close}).
 */
public final class Waiter implements Consumer<Outcome>, AutoCloseable {
    private final Thread thread = Thread.currentThread();
    private final WorkerPool pool;
    private volatile Outcome outcome;
    private boolean interrupted = Thread.interrupted();

    public Waiter(WorkerPool pool) {
        this.pool = pool;
    }

    @Override
    public void accept(Outcome answer) {
        outcome = answer;
        LockSupport.unpark(thread);
    }

    /**
     * Blocks until there is an outcome; the deadline of the call bounds the wait.
     *
     * @param onInterrupt what the first interrupt since the question leads to
     */
    public Outcome await(Runnable onInterrupt) {
        return pool.blocking(() -> {
            for (boolean isNotified = false; outcome == null; LockSupport.park(this)) {
                if (Thread.interrupted()) {
                    interrupted = true;
                    if (!isNotified) {
                        isNotified = true;
                        onInterrupt.run();
                    }
                }
            }
            return outcome;
        });
    }

    /** The wait is over, or never began: the thread is as interrupted as it was, or became. */
    @Override
    public void close() {
        if (interrupted) {
            thread.interrupt();
        }
    }

    /** A place for an answer that many sequences lead to: the first outcome counts. */
    public static final class FirstAnswer implements Consumer<Outcome>, AutoCloseable {
        private final Waiter waiter;
        private final AtomicBoolean given = new AtomicBoolean();

        public FirstAnswer(Waiter waiter) {
            this.waiter = waiter;
        }

        @Override
        public void accept(Outcome outcome) {
            if (given.compareAndSet(false, true)) {
                waiter.accept(outcome);
            }
        }

        public boolean isGiven() {
            return given.get();
        }

        /** Blocks until there is an outcome; throws it if it is an error. */
        public void await() {
            Outcome outcome = waiter.await(() -> {});
            if (outcome.error() != null) {
                throw outcome.error();
            }
        }

        @Override
        public void close() {
            waiter.close();
        }
    }
}
