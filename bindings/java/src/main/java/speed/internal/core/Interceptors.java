package speed.internal.core;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Function;
import speed.Interceptor;
import speed.Passage;
import speed.internal.wire.Require;

/** The interceptors of one side of a node; the first one added is the outermost. Thread-safe. */
public final class Interceptors<R> {
    /** What stands behind them. */
    @FunctionalInterface
    public interface Proceeding<R> {
        Object proceed(R request) throws Exception;
    }

    private volatile List<Interceptor<R>> all = List.of();

    /** Adds one, inside of those that are there. */
    public synchronized void add(Interceptor<R> one) {
        List<Interceptor<R>> more = new ArrayList<>(all);
        more.add(Require.value("interceptor", one));
        all = List.copyOf(more);
    }

    /** What becomes of a request between them. */
    public Object through(R request, Proceeding<R> proceeding) throws Exception {
        List<Interceptor<R>> around = all;
        if (around.isEmpty()) {
            return proceeding.proceed(request);
        }
        Way<R> way = new Way<>(request, around);
        if (!way.isOver) {
            try {
                way.leave(proceeding.proceed(way.request), null);
            } catch (Throwable failure) { // whatever it is, they are told
                way.leave(null, failure);
            }
        }
        return way.outcome();
    }

    /** The same where no checked exception can be thrown: one of an interceptor's own is the cause of another. */
    public Object throughUnchecked(R request, Function<R, Object> proceeding) {
        try {
            return through(request, proceeding::apply);
        } catch (RuntimeException known) {
            throw known;
        } catch (Exception odd) {
            throw new CompletionException(odd);
        }
    }

    /** The same of a call that goes on: who completes its future does what is done afterwards. */
    public CompletableFuture<Object> submitted(R request, Function<R, CompletableFuture<Object>> proceeding) {
        List<Interceptor<R>> around = all;
        return around.isEmpty() ? proceeding.apply(request) : new Intercepted<>(new Way<>(request, around), proceeding);
    }

    /** One request on its way in, and its outcome on the way back. One thread at a time uses it. */
    private static final class Way<R> {
        private final Deque<Passage.Handling> open = new ArrayDeque<>();
        private R request;
        private boolean isOver;
        private Object result;
        private Throwable error;

        Way(R request, List<Interceptor<R>> around) {
            this.request = request;
            for (Interceptor<R> one : around) {
                if (!isOver) {
                    enter(one);
                }
            }
        }

        private void enter(Interceptor<R> one) {
            try {
                Passage<R> passage = Require.value("what an interceptor returns", one.enter(request));
                if (passage.after() != null) {
                    open.push(passage.after());
                }
                if (passage.request() == null) {
                    leave(passage.answer(), null);
                } else {
                    request = passage.request();
                }
            } catch (Throwable failure) {
                leave(null, failure);
            }
        }

        void leave(Object answer, Throwable failure) {
            isOver = true;
            result = answer;
            error = failure;
            while (!open.isEmpty()) {
                try {
                    result = open.pop().handle(result, error);
                    error = null;
                } catch (Throwable another) {
                    result = null;
                    error = another;
                }
            }
        }

        Object outcome() throws Exception {
            if (error instanceof Error grave) {
                throw grave;
            } else if (error != null) {
                throw error instanceof Exception known ? known : new IllegalStateException(error);
            }
            return result;
        }
    }

    /** A call between interceptors that is under way. */
    private static final class Intercepted<R> extends CompletableFuture<Object> {
        private final CompletableFuture<Object> called;

        Intercepted(Way<R> way, Function<R, CompletableFuture<Object>> proceeding) {
            called = way.isOver ? null : begun(way, proceeding);
            if (called == null) {
                end(way);
            } else {
                called.whenComplete((result, error) -> {
                    way.leave(result, error);
                    end(way);
                });
            }
        }

        private static <R> CompletableFuture<Object> begun(
                Way<R> way, Function<R, CompletableFuture<Object>> proceeding) {
            try {
                return proceeding.apply(way.request);
            } catch (Throwable failure) {
                way.leave(null, failure);
                return null;
            }
        }

        private void end(Way<R> way) {
            if (way.error == null) {
                complete(way.result);
            } else {
                completeExceptionally(way.error);
            }
        }

        /** Withdraws the call: it ends as its server says. */
        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            if (called != null) {
                called.cancel(mayInterruptIfRunning);
            }
            return isCancelled();
        }
    }
}
