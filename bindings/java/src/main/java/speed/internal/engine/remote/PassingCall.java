package speed.internal.engine.remote;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import speed.errors.CallTimeoutException;
import speed.errors.NodeLeftException;
import speed.errors.SpeedException;
import speed.internal.GuardedBy;
import speed.internal.core.Family;

/** A call that goes from member to member of a family until one begins it, and to two where it is hedged (S-40). Thread-safe. */
public final class PassingCall extends CompletableFuture<Object> {
    private final Object turn = new Object();

    @GuardedBy("turn")
    private final Families.Walk members;

    private final long deadline;
    private final BiFunction<String, Duration, CompletableFuture<Object>> submit;
    /** What is under way, by member. */
    @GuardedBy("turn")
    private final Map<String, CompletableFuture<Object>> open = new HashMap<>();

    private volatile boolean isWithdrawn;

    PassingCall(
            Families.Walk members, Duration timeout, BiFunction<String, Duration, CompletableFuture<Object>> submit) {
        this.members = members;
        this.submit = submit;
        deadline = System.nanoTime() + timeout.toNanos();
    }

    /** Asks the next member; throws what no other one could change. */
    void begin() {
        begin(true);
    }

    private void begin(boolean mayWait) {
        while (true) {
            String member = next(mayWait);
            CompletableFuture<Object> asked;
            try {
                asked = submit.apply(member, Duration.ofNanos(Math.max(0, deadline - System.nanoTime())));
            } catch (SpeedException failure) {
                noteEnded(member);
                passOn(member, failure);
                continue;
            } catch (RuntimeException | Error failure) {
                noteEnded(member);
                throw failure;
            }
            synchronized (turn) {
                open.put(member, asked);
            }
            asked.whenComplete((result, error) -> ended(member, result, error));
            if (isWithdrawn) {
                asked.cancel(false);
            }
            return;
        }
    }

    private String next(boolean mayWait) {
        synchronized (turn) {
            return members.take(mayWait);
        }
    }

    private void noteEnded(String member) {
        synchronized (turn) {
            members.ended(member);
        }
    }

    /** Throws the failure where it is final. */
    private void passOn(String member, SpeedException failure) {
        synchronized (turn) {
            members.failed(failure, member);
        }
    }

    /** Has a second member do the same, if there is one: the first result counts. */
    public void askAnother() {
        try {
            begin(false);
        } catch (SpeedException nobody) {
            return; // the first one may still answer
        }
        if (isDone()) {
            cancelOpen();
        }
    }

    private void ended(String member, Object result, Throwable error) {
        boolean isLast;
        synchronized (turn) {
            members.ended(member);
            open.remove(member);
            isLast = open.isEmpty();
        }
        if (isDone()) {
            return;
        }
        if (error == null) {
            complete(result);
        } else if (!isWithdrawn && error instanceof SpeedException failure && passesOn(failure)) {
            again(member, failure);
        } else if (isLast || !(error instanceof NodeLeftException || error instanceof CallTimeoutException)) {
            completeExceptionally(error);
        }
        if (isDone()) {
            cancelOpen();
        }
    }

    private static boolean passesOn(SpeedException failure) {
        return Family.passesOn(failure.code(), failure.execution());
    }

    private void again(String member, SpeedException failure) {
        try {
            passOn(member, failure);
            begin();
        } catch (RuntimeException | Error last) {
            if (isAlone()) {
                completeExceptionally(last);
            }
        }
    }

    private boolean isAlone() {
        synchronized (turn) {
            return open.isEmpty();
        }
    }

    /** Withdraws the call, wherever it is: it ends as its server says. */
    @Override
    public boolean cancel(boolean mayInterruptIfRunning) {
        isWithdrawn = true;
        cancelOpen();
        return isCancelled();
    }

    private void cancelOpen() {
        List<CompletableFuture<Object>> waiting;
        synchronized (turn) {
            waiting = new ArrayList<>(open.values());
        }
        waiting.forEach(one -> one.cancel(false));
    }

    // --- for the thread that waits ---

    /** Whether it ended within a time, or the thread was interrupted. */
    boolean hasEndedWithin(Duration time) {
        try {
            get(time.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException early) {
            return false;
        } catch (ExecutionException failed) {
            return true;
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
        }
        return true;
    }

    /** The result, once it is there; an interrupt meanwhile withdraws the call. */
    Object result() {
        boolean isInterrupted = false;
        try {
            while (true) {
                try {
                    return get();
                } catch (InterruptedException hurry) {
                    isInterrupted = true;
                    cancel(true);
                }
            }
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof RuntimeException known
                    ? known
                    : new CompletionException(failed.getCause());
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
