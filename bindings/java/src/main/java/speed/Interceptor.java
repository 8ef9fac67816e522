package speed;

/**
 * A small function around calls ({@link Node#interceptCalls}) or services ({@link Node#interceptServices}), for access,
 * logs and figures. It must be thread-safe. What it does before, it does at once; what it does afterwards, it hands over:
 *
 * <pre>{@code
 * node.interceptCalls(call -> {
 *     long began = System.nanoTime();
 *     return Passage.on(call).whenDone((result, error) -> times.add(call.service(), System.nanoTime() - began));
 * });
 * }</pre>
 *
 * <p>So one form serves {@code call}, {@code submit}, services, and services that stream.
 *
 * @param <R> {@link CallRequest} or {@link Request}
 */
@FunctionalInterface
public interface Interceptor<R> {
    /**
     * Looks at a request before it goes on.
     *
     * @param request as it came, or as the interceptor outside of this one let it through
     * @return how it goes on
     * @throws Exception ends it with that: nothing is called
     */
    Passage<R> enter(R request) throws Exception;
}
