package speed.internal.engine.threads;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import speed.internal.core.PendingCalls.Outcome;

/**
 * The future of an answer. A thread that waits for it is woken by the one that reads the lane, and makes the result of
 * the answer itself; while none waits, {@link Futures} does. Thread-safe.
 */
public abstract class AnswerFuture extends CompletableFuture<Object> {
    private final Futures futures;
    private final AtomicReference<Thread> waiting = new AtomicReference<>();
    private final AtomicReference<Outcome> arrived = new AtomicReference<>();
    private volatile boolean hasArrived;

    protected AnswerFuture(Futures futures) {
        this.futures = futures;
    }

    /** Completes this, once, on the thread that waits for it or on one of {@link Futures}. */
    protected abstract void end(Outcome outcome);

    /** Only for the reader: the answer is there. */
    public void arrive(Outcome outcome) {
        arrived.set(outcome);
        hasArrived = true;
        Thread waiter = waiting.get();
        if (waiter != null) {
            LockSupport.unpark(waiter);
        } else {
            futures.add(this::endOnce);
        }
    }

    private void endOnce() {
        Outcome outcome = arrived.getAndSet(null);
        if (outcome != null) {
            end(outcome);
        }
    }

    @Override
    public Object get() throws InterruptedException, ExecutionException {
        await(System.nanoTime() + Long.MAX_VALUE / 2);
        return super.get();
    }

    @Override
    public Object get(long timeout, TimeUnit unit) throws InterruptedException, ExecutionException, TimeoutException {
        long until = System.nanoTime() + Math.min(unit.toNanos(timeout), Long.MAX_VALUE / 2);
        await(until);
        return super.get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
    }

    /** Until the answer is there, or the time is over, or the thread is interrupted, or the program ended it. */
    private void await(long until) {
        if (isDone() || !waiting.compareAndSet(null, Thread.currentThread())) {
            return;
        }
        try {
            while (!hasArrived && !isDone() && !Thread.currentThread().isInterrupted()) {
                long left = until - System.nanoTime();
                if (left <= 0) {
                    break;
                }
                LockSupport.parkNanos(this, left);
            }
        } finally {
            waiting.set(null);
        }
        if (hasArrived) { // perhaps just now, when nobody else was told
            endOnce();
        }
    }

    @Override
    public boolean complete(Object value) {
        return woken(super.complete(value));
    }

    @Override
    public boolean completeExceptionally(Throwable failure) {
        return woken(super.completeExceptionally(failure));
    }

    private boolean woken(boolean isCompleted) {
        LockSupport.unpark(waiting.get());
        return isCompleted;
    }
}
