package speed;

import java.util.function.BiConsumer;
import speed.internal.wire.Require;

/**
 * How a request goes on behind an interceptor, and what is done when its outcome is there. Immutable.
 *
 * @param <R> {@link CallRequest} or {@link Request}
 * @param request what is let through; null where the interceptor has answered itself
 * @param answer the result that takes its place
 * @param after what is done afterwards; null for nothing
 */
public record Passage<R>(R request, Object answer, Handling after) {
    /** What is done with an outcome. */
    @FunctionalInterface
    public interface Handling {
        /**
         * Takes an outcome, and gives one.
         *
         * @param result of what was called, as it came; null with an error
         * @param error null for a result
         * @return the result that takes its place
         * @throws Throwable the error that takes its place
         */
        Object handle(Object result, Throwable error) throws Throwable;
    }

    /**
     * Lets a request through.
     *
     * @param <R> its type
     * @param request the one that came, or another like it
     * @return how it goes on
     */
    public static <R> Passage<R> on(R request) {
        return new Passage<>(Require.value("request", request), null, null);
    }

    /**
     * Answers it: nothing is called.
     *
     * @param <R> the type of the request
     * @param result from a cache, say; maybe null
     * @return how it goes on
     */
    public static <R> Passage<R> answered(Object result) {
        return new Passage<>(null, result, null);
    }

    /**
     * The same with something that is done when the outcome is there, perhaps by another thread. The outcome stays as it
     * is, unless this throws.
     *
     * @param told is given the result, or the error
     * @return such a passage
     */
    public Passage<R> whenDone(BiConsumer<Object, Throwable> told) {
        BiConsumer<Object, Throwable> known = Require.value("told", told);
        return handle((result, error) -> {
            known.accept(result, error);
            if (error != null) {
                throw error;
            }
            return result;
        });
    }

    /**
     * The same with something that takes the outcome and gives another, perhaps by another thread.
     *
     * @param handling is given the result, or the error
     * @return such a passage
     */
    public Passage<R> handle(Handling handling) {
        return new Passage<>(request, answer, Require.value("handling", handling));
    }
}
