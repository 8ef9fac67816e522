package speed.options;

import java.util.List;
import speed.Request;
import speed.internal.wire.Require;

/**
 * How a service is offered. Immutable: each method returns other options.
 *
 * @param allow names or families that may call it, besides having the node's grant; null for all that have it
 * @param idempotent whether it may run twice for one call: then a request that was in hand when its node was killed runs
 *     again in the next life, marked {@link Request#redelivered}
 * @param views whether large bytes among its arguments stay where they were opened, as read-only ByteBuffers, instead of
 *     being copied into arrays
 * @param description what callers can read of it, and what is checked of its arguments; null for neither
 */
public record ServiceOptions(List<String> allow, boolean idempotent, boolean views, ServiceDescription description) {
    /** For all who may write to the node; each call runs at most once. */
    public static final ServiceOptions DEFAULT = new ServiceOptions(null, false, false, null);

    /**
     * For some callers only.
     *
     * @param patterns names or families
     * @return such options
     */
    public ServiceOptions withAllow(String... patterns) {
        return new ServiceOptions(Require.list("allow", patterns), idempotent, views, description);
    }

    /**
     * A service that may run twice for one call.
     *
     * @return such options
     */
    public ServiceOptions withIdempotence() {
        return new ServiceOptions(allow, true, views, description);
    }

    /**
     * A service that takes large bytes without a copy, as {@code request.get("data", ByteBuffer.class)}.
     *
     * @return such options
     */
    public ServiceOptions withViews() {
        return new ServiceOptions(allow, idempotent, true, description);
    }

    /**
     * A service that says what it takes and gives.
     *
     * @param description its summary, parameters and result
     * @return such options
     */
    public ServiceOptions withDescription(ServiceDescription description) {
        return new ServiceOptions(allow, idempotent, views, Require.value("description", description));
    }
}
