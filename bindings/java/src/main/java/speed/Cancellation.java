package speed;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import speed.internal.wire.Require;

/**
 * Tells a running service that nobody waits for its answer any more: the caller withdrew the call, left or died, or the
 * deadline passed. A service that ends early then throws {@link java.util.concurrent.CancellationException}; one that
 * does not look goes on. Thread-safe.
 */
public final class Cancellation {
    private final CountDownLatch raised = new CountDownLatch(1);
    private List<Runnable> actions = new ArrayList<>(1);

    /** One that is not raised; a node makes them, and tests of services do. */
    public Cancellation() {
        // nothing is known yet
    }

    /**
     * Whether nobody waits any more.
     *
     * @return true for good
     */
    public boolean isCancelled() {
        return raised.getCount() == 0;
    }

    /**
     * Runs something when nobody waits any more; at once if that is so already.
     *
     * @param action short: it runs on a thread of the node
     */
    public void onCancel(Runnable action) {
        Require.value("action", action);
        synchronized (this) {
            if (!isCancelled()) {
                actions.add(action);
                return;
            }
        }
        action.run();
    }

    /**
     * Waits until nobody waits for the answer any more.
     *
     * @param longest wait
     * @return whether that is so now
     * @throws InterruptedException when the waiting thread is interrupted
     */
    public boolean await(Duration longest) throws InterruptedException {
        return raised.await(Require.timeout(longest).toNanos(), TimeUnit.NANOSECONDS);
    }

    /** Says that nobody waits any more; saying it again does nothing. What an action throws ends no other action. */
    public void raise() {
        List<Runnable> due;
        synchronized (this) {
            due = actions;
            actions = List.of();
            raised.countDown();
        }
        Throwable failure = null;
        for (Runnable action : due) {
            try {
                action.run();
            } catch (Throwable thrown) {
                failure = thrown;
            }
        }
        if (failure != null) {
            throw new IllegalStateException("an action of a cancellation failed", failure);
        }
    }
}
