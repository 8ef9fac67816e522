package speed.internal.engine.link;

import java.util.function.LongSupplier;
import speed.internal.GuardedBy;

/** Group commit: what many threads appended is flushed once for all of them. Thread-safe. */
final class GroupFlush {
    @GuardedBy("this")
    private long covered;

    @GuardedBy("this")
    private boolean isFlushing;

    /**
     * Returns once a flush is over that began when a counter had been appended, whether it failed or not. One of
     * those who wait does it, without this monitor. An interrupt waits until it is over.
     *
     * @param flush throws nothing; returns the counter up to which things had been appended when it began
     */
    void await(long counter, LongSupplier flush) {
        if (isDone(counter)) {
            return;
        }
        long reached = 0;
        try {
            reached = flush.getAsLong();
        } finally {
            end(reached);
        }
    }

    /** False for who is to flush now. */
    private synchronized boolean isDone(long counter) {
        boolean wasInterrupted = false;
        while (covered < counter && isFlushing) {
            try {
                wait();
            } catch (InterruptedException later) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
        isFlushing = isFlushing || covered < counter;
        return covered >= counter;
    }

    private synchronized void end(long reached) {
        covered = Math.max(covered, reached);
        isFlushing = false;
        notifyAll();
    }
}
