package speed.options;

import java.time.Duration;
import java.util.function.Consumer;
import speed.errors.ConfigurationException;
import speed.internal.wire.Limits;
import speed.internal.wire.Require;
import speed.internal.wire.StreamOffer;

/**
 * How a service is called that gives or takes many items. Immutable: each method returns other options.
 *
 * @param timeout the deadline of the whole call, on both sides; null for none
 * @param idleTimeout how long the next item is waited for; null for no limit
 * @param windowItems so many items may wait to be read; the service waits then
 * @param windowBytes so many bytes of them may; one item may be larger
 * @param items what is sent to the service: a thread of its own goes through it, and closes its iterator if that is
 *     AutoCloseable; null for none
 * @param onProgress is told how far the service is, by the thread that reads; null for nobody
 * @param traceparent W3C trace context; null takes that of the request at hand
 * @param key of a family: what has the same key goes to the same node, as long as it is there; null for whichever has
 *     fewest calls of this node under way
 */
public record StreamOptions(
        Duration timeout,
        Duration idleTimeout,
        long windowItems,
        long windowBytes,
        Iterable<?> items,
        Consumer<StreamProgress> onProgress,
        String traceparent,
        String key) {
    /** No deadline, 30 s for the next item, the usual window, no items. */
    public static final StreamOptions DEFAULT = new StreamOptions(
            null, Duration.ofSeconds(30), Limits.STREAM_ITEMS, Limits.STREAM_BYTES, null, null, null, null);

    /**
     * Checks the window.
     *
     * @param timeout the deadline of the whole call, on both sides; null for none
     * @param idleTimeout how long the next item is waited for; null for no limit
     * @param windowItems so many items may wait to be read; the service waits then
     * @param windowBytes so many bytes of them may; one item may be larger
     * @param items what is sent to the service: a thread of its own goes through it, and closes its iterator if that is
     *     AutoCloseable; null for none
     * @param onProgress is told how far the service is, by the thread that reads; null for nobody
     * @param traceparent W3C trace context; null takes that of the request at hand
     * @param key of a family: what has the same key goes to the same node, as long as it is there; null for whichever has
     *     fewest calls of this node under way
     * @throws ConfigurationException for one that holds nothing, or too much to be counted
     */
    public StreamOptions {
        timeout = timeout == null ? null : Require.timeout(timeout);
        idleTimeout = idleTimeout == null ? null : Require.timeout(idleTimeout);
        if (windowItems < 1 || windowBytes < 1 || Math.max(windowItems, windowBytes) > StreamOffer.MAX_CREDIT) {
            throw new ConfigurationException(
                    "a window of " + windowItems + " items and " + windowBytes + " bytes cannot be used");
        }
    }

    /**
     * A deadline of the whole call.
     *
     * @param newTimeout on both sides
     * @return such options
     */
    public StreamOptions withTimeout(Duration newTimeout) {
        Duration known = Require.value("timeout", newTimeout);
        return new StreamOptions(known, idleTimeout, windowItems, windowBytes, items, onProgress, traceparent, key);
    }

    /**
     * Another bound for the wait for one item.
     *
     * @param newTimeout null for no limit
     * @return such options
     */
    public StreamOptions withIdleTimeout(Duration newTimeout) {
        return new StreamOptions(timeout, newTimeout, windowItems, windowBytes, items, onProgress, traceparent, key);
    }

    /**
     * Another window.
     *
     * @param newItems that may wait to be read
     * @param newBytes of them
     * @return such options
     */
    public StreamOptions withWindow(long newItems, long newBytes) {
        return new StreamOptions(timeout, idleTimeout, newItems, newBytes, items, onProgress, traceparent, key);
    }

    /**
     * Items for the service.
     *
     * @param newItems gone through once, by a thread of its own
     * @return such options
     */
    public StreamOptions withItems(Iterable<?> newItems) {
        Iterable<?> known = Require.value("items", newItems);
        return new StreamOptions(timeout, idleTimeout, windowItems, windowBytes, known, onProgress, traceparent, key);
    }

    /**
     * Somebody who is told how far the service is.
     *
     * @param listener is given the newest of some twenty reports a second, and always the last one
     * @return such options
     */
    public StreamOptions withProgress(Consumer<StreamProgress> listener) {
        Consumer<StreamProgress> known = Require.value("onProgress", listener);
        return new StreamOptions(timeout, idleTimeout, windowItems, windowBytes, items, known, traceparent, key);
    }

    /**
     * A trace context.
     *
     * @param newTraceparent W3C traceparent
     * @return such options
     */
    public StreamOptions withTraceparent(String newTraceparent) {
        return new StreamOptions(
                timeout, idleTimeout, windowItems, windowBytes, items, onProgress, newTraceparent, key);
    }

    /**
     * Always the same node of a family.
     *
     * @param newKey any text
     * @return such options
     */
    public StreamOptions withKey(String newKey) {
        String known = Require.value("key", newKey);
        return new StreamOptions(timeout, idleTimeout, windowItems, windowBytes, items, onProgress, traceparent, known);
    }
}
