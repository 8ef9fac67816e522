package speed.runtime;

import java.util.concurrent.locks.LockSupport;
import speed.core.PendingCalls;

/** One blocked thread's place for an answer; the thread may read the answer by itself (decision 0007). */
final class Waiter {
    private final Thread thread = Thread.currentThread();
    private final WorkerPool pool;
    private volatile PendingCalls.Outcome outcome;

    Waiter(WorkerPool pool) {
        this.pool = pool;
    }

    void complete(PendingCalls.Outcome answer) {
        outcome = answer;
        LockSupport.unpark(thread);
    }

    boolean isDone() {
        return outcome != null;
    }

    /** Blocks until completed; the deadline of the call bounds the wait, an interrupt is kept for later. */
    Object await() {
        if (!isDone()) {
            pool.lead(this);
        }
        boolean interrupted = false;
        while (!isDone()) {
            LockSupport.park(this);
            interrupted |= Thread.interrupted();
        }
        if (interrupted) {
            thread.interrupt();
        }
        if (outcome.error() != null) {
            throw outcome.error();
        }
        return outcome.result();
    }
}
