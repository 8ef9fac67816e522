package speed.internal.engine.threads;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import speed.internal.core.PendingCalls.Outcome;

/** A place for an answer that many sequences lead to: the first outcome counts. */
public final class OneAnswer implements Consumer<Outcome>, AutoCloseable {
    private final Waiter waiter;
    private final AtomicBoolean given = new AtomicBoolean();

    public OneAnswer(Waiter waiter) {
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
