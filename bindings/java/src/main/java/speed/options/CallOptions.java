package speed.options;

import java.time.Duration;
import java.util.function.Consumer;
import speed.internal.wire.Require;

/**
 * How a service is called. Immutable: each method returns other options.
 *
 * @param timeout the deadline, on both sides
 * @param traceparent W3C trace context; null takes that of the request at hand
 * @param views whether bytes of 32 KiB and more in the result are read-only ByteBuffers, without a copy, instead of
 *     arrays; {@code submit} never does that
 * @param retry how often it is tried; null for once
 * @param key of a family: what has the same key goes to the same node, as long as it is there; null for whichever has
 *     fewest calls of this node under way
 * @param onProgress is told how far the service is, by the thread that calls, or one of its own for {@code submit}; null
 *     for nobody. Such a call stays in this root, and is tried once
 */
public record CallOptions(
        Duration timeout,
        String traceparent,
        boolean views,
        Retry retry,
        String key,
        Consumer<StreamProgress> onProgress) {
    /** The usual deadline, once. */
    public static final CallOptions DEFAULT = new CallOptions(Duration.ofSeconds(30), null, false, null, null, null);

    /**
     * Checks the deadline.
     *
     * @param timeout the deadline, on both sides
     * @param traceparent W3C trace context; null takes that of the request at hand
     * @param views whether bytes of 32 KiB and more in the result are read-only ByteBuffers, without a copy, instead of
     *     arrays; {@code submit} never does that
     * @param retry how often it is tried; null for once
     * @param key of a family: what has the same key goes to the same node, as long as it is there; null for whichever has
     *     fewest calls of this node under way
     * @param onProgress is told how far the service is, by the thread that calls, or one of its own for {@code submit}; null
     *     for nobody. Such a call stays in this root, and is tried once
     */
    public CallOptions {
        timeout = Require.timeout(timeout);
    }

    /**
     * Another deadline.
     *
     * @param newTimeout on both sides
     * @return such options
     */
    public CallOptions withTimeout(Duration newTimeout) {
        return new CallOptions(newTimeout, traceparent, views, retry, key, onProgress);
    }

    /**
     * A trace context.
     *
     * @param newTraceparent W3C traceparent
     * @return such options
     */
    public CallOptions withTraceparent(String newTraceparent) {
        return new CallOptions(timeout, newTraceparent, views, retry, key, onProgress);
    }

    /**
     * Large bytes of the result without a copy.
     *
     * @return such options
     */
    public CallOptions withViews() {
        return new CallOptions(timeout, traceparent, true, retry, key, onProgress);
    }

    /**
     * More than one attempt.
     *
     * @param newRetry how often it is tried
     * @return such options
     */
    public CallOptions withRetry(Retry newRetry) {
        return new CallOptions(timeout, traceparent, views, Require.value("retry", newRetry), key, onProgress);
    }

    /**
     * Always the same node of a family.
     *
     * @param newKey any text
     * @return such options
     */
    public CallOptions withKey(String newKey) {
        return new CallOptions(timeout, traceparent, views, retry, Require.value("key", newKey), onProgress);
    }

    /**
     * Somebody who is told how far the service is ({@code Request.progress}).
     *
     * @param listener is given the newest of some twenty reports a second, and always the last one
     * @return such options
     */
    public CallOptions withProgress(Consumer<StreamProgress> listener) {
        return new CallOptions(timeout, traceparent, views, retry, key, Require.value("onProgress", listener));
    }
}
