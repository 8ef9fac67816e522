package speed.runtime;

import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import speed.core.PendingCalls.Outcome;

/** One blocked thread's place for an answer. */
final class Waiter implements Consumer<Outcome> {
    private final Thread thread = Thread.currentThread();
    private final WorkerPool pool;
    private volatile Outcome outcome;

    Waiter(WorkerPool pool) {
        this.pool = pool;
    }

    @Override
    public void accept(Outcome answer) {
        outcome = answer;
        LockSupport.unpark(thread);
    }

    /**
     * Blocks until there is an outcome; the deadline of the call bounds the wait. A thread that was interrupted already
     * waits all the same.
     *
     * @param interrupted what the first interrupt that comes meanwhile leads to; it is kept for later
     */
    Outcome await(Runnable interrupted) {
        return pool.blocking(() -> {
            boolean was = Thread.interrupted();
            boolean told = false;
            while (outcome == null) {
                LockSupport.park(this);
                if (Thread.interrupted()) {
                    was = true;
                    if (!told) {
                        told = true;
                        interrupted.run();
                    }
                }
            }
            if (was) {
                Thread.currentThread().interrupt();
            }
            return outcome;
        });
    }
}
