package speed;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import speed.errors.SpeedException;
import speed.internal.spi.Engine;
import speed.internal.wire.Require;
import speed.options.NodeOptions;
import speed.options.ServiceOptions;
import speed.topics.Topic;

/**
 * One participant: found by others under its name, reached by those it allows.
 *
 * <pre>{@code
 * try (Node node = Node.builder("billing").allow("analytics").open()) {
 *     node.register("add", request -> request.get("a", Long.class) + request.get("b", Long.class));
 *     Object report = node.call("analytics", "report", Map.of("year", 2026));
 * }
 * }</pre>
 *
 * <p>Values are null, Boolean, whole numbers (received as Long, above 2^63−1 as BigInteger), Double, String, byte[],
 * List, Map with keys of text or whole numbers, Instant, and
 * {@link speed.columns.Column}. Records travel as maps by the names of their components, sets and arrays as lists, UUID,
 * BigDecimal, LocalDate, LocalTime, LocalDateTime and enums as text, Duration as whole microseconds, and Optional as what
 * it holds, or null. {@link Value#as} reads them: nothing is converted that no type asks for.
 *
 * <p>All methods are thread-safe, and throw {@link speed.errors.NodeClosedException} once the node is closed. Threads are
 * daemons: they never keep a program alive.
 */
public interface Node extends Caller, Messenger, Peers, AutoCloseable {
    /**
     * Begins a node.
     *
     * @param name unique among the live nodes of a root; 1 to 128 characters
     * @return its settings, all with defaults
     */
    static Builder builder(String name) {
        return new Builder(Require.value("name", name));
    }

    /**
     * The name.
     *
     * @return as given
     */
    String name();

    /**
     * How often this name was claimed, this time included.
     *
     * @return from 1
     */
    int generation();

    /**
     * Says that all services and grants are there: who waited for this node goes on. Nothing for one that did not begin
     * with {@link Builder#starting()}.
     *
     * @throws speed.errors.StorageException when the registry entry cannot be written
     */
    void ready();

    // --- access ---

    /**
     * Lets nodes write here; published before this returns. Where it throws, nothing was granted.
     *
     * @param patterns names, families such as {@code etl.*}, or {@code name@fingerprint} for one identity of that name
     * @throws speed.errors.InvalidNameException for a pattern that is none of these
     * @throws speed.errors.ConfigurationException when the registry entry has no room for so many, and for a fingerprint
     *     where this node has no identity
     */
    void allow(String... patterns);

    /**
     * Takes grants back; envelopes not yet dispatched are discarded.
     *
     * @param patterns names, or families
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     */
    void deny(String... patterns);

    /**
     * The grants in force.
     *
     * @return sorted patterns
     */
    List<String> allowed();

    // --- services ---

    /**
     * Offers a service to all nodes that may write here.
     *
     * @param service its name
     * @param implementation what it does
     * @throws speed.errors.ServiceExistsException when the name is in use here
     * @throws speed.errors.ConfigurationException when there is no implementation
     */
    default void register(String service, Service implementation) {
        register(service, implementation, ServiceOptions.DEFAULT);
    }

    /**
     * Offers a service to some nodes only.
     *
     * @param service its name
     * @param implementation what it does
     * @param allow names or families that may call it; they need this node's grant as well
     * @throws speed.errors.ServiceExistsException when the name is in use here
     * @throws speed.errors.ConfigurationException when there is no implementation
     */
    default void register(String service, Service implementation, List<String> allow) {
        register(
                service,
                implementation,
                ServiceOptions.DEFAULT.withAllow(Require.value("allow", allow).toArray(new String[0])));
    }

    /**
     * Offers a service.
     *
     * @param service its name
     * @param implementation what it does
     * @param options who may call it, and whether it may run twice for one call
     * @throws speed.errors.ServiceExistsException when the name is in use here
     * @throws speed.errors.ConfigurationException when there is no implementation
     */
    void register(String service, Service implementation, ServiceOptions options);

    /**
     * Takes a service back.
     *
     * @param service its name
     */
    void unregister(String service);

    // --- interceptors ---

    /**
     * Has a function run around each attempt of a call that this node makes from now on. The first one added is the
     * outermost. Streams do not pass it.
     *
     * @param interceptor what it does afterwards may run on another thread
     */
    void interceptCalls(Interceptor<CallRequest> interceptor);

    /**
     * Has a function run around each service of this node, from the first item to the end of one that streams. The first
     * one added is the outermost. It runs on a worker, where it may wait. What a service returned, it gets as it is: maybe a
     * {@link Response}.
     *
     * @param interceptor an error of its own is its caller's, as one of the service would be
     * @throws speed.errors.ConfigurationException once a service was registered, which would have been without
     */
    void interceptServices(Interceptor<Request> interceptor);

    // --- durable topics ---

    /**
     * A durable topic, whose messages are kept for subscriptions by {@link Topic#HOST}; nothing is asked of it yet.
     *
     * @param name of the topic
     * @return a topic
     */
    default Topic topic(String name) {
        return topic(name, Topic.HOST);
    }

    /**
     * A durable topic of another host.
     *
     * @param name of the topic
     * @param host the node of the speedd that has {@code [topics]}: its name and {@code .topics}
     * @return a topic
     */
    Topic topic(String name, String host);

    // --- the node itself ---

    /**
     * Sends all payloads to a node in segments from now on, for a bridge on the way that has a small limit.
     *
     * @param target name of the node
     * @param segmentSize most bytes of a payload in one segment, with parity the greatest multiple of 64 in it; 0 ends it
     * @param parityRate parity segments for each data segment, so that what the bridge loses is recovered; 0 for none
     * @throws speed.errors.ConfigurationException for a size or rate that cannot be used
     */
    void segment(String target, int segmentSize, double parityRate);

    /**
     * Calls a handler, on a thread of its own, when the lease was lost: this node can do nothing more then.
     *
     * @param handler told why
     */
    void onLost(Consumer<SpeedException> handler);

    /**
     * Counters of this node.
     *
     * @return by field name
     */
    Map<String, Object> stats();

    /**
     * Whether the node can no longer be used: closed, or its name is lost.
     *
     * @return true for good
     */
    boolean isClosed();

    /**
     * Leaves in order: stops accepting, finishes work in flight, removes the entry, tells others. Waits ten seconds for
     * work in flight at most. From inside a service or handler it does not wait for that one, whose answer is then not
     * sent.
     */
    @Override
    default void close() {
        close(Duration.ofSeconds(10));
    }

    /**
     * Leaves in order. Calling it again does nothing.
     *
     * @param drain longest wait for work in flight
     */
    void close(Duration drain);

    /** The settings of a node; {@link #open} starts it. Not thread-safe. */
    final class Builder extends NodeOptions.Builder<Builder> {
        private Builder(String name) {
            super(name);
        }

        @Override
        protected Builder self() {
            return this;
        }

        /**
         * Claims the name and starts the node.
         *
         * @return a running node, to be closed
         * @throws speed.errors.NameTakenException when a live node has the name
         * @throws speed.errors.ConfigurationException when a setting, the root or the key file cannot be used
         */
        public Node open() {
            return (Node) Engine.installed().start(options());
        }
    }
}
