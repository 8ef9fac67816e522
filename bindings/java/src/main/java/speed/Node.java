package speed;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import speed.errors.NodeClosedException;
import speed.errors.UnknownNodeException;
import speed.runtime.Runtime;
import speed.wire.Entry;
import speed.wire.EnvelopeType;

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
 * List, Map with keys of text or whole numbers, and Instant. Nothing is converted silently.
 *
 * <p>All methods are thread-safe. Threads are daemons: they never keep a program alive.
 */
public final class Node implements AutoCloseable {
    /** Deadline of a call that is given none. */
    public static final Duration CALL_TIMEOUT = Duration.ofSeconds(30);

    private static final Duration ASK_TIMEOUT = Duration.ofSeconds(5);
    private static final Duration DRAIN = Duration.ofSeconds(10);
    private static final long WAIT_NANOS = 10_000_000;

    private final Runtime runtime;
    private final AtomicBoolean closed = new AtomicBoolean();

    Node(Runtime runtime) {
        this.runtime = runtime;
    }

    /**
     * Begins a node.
     *
     * @param name unique among the live nodes of a root; 1 to 128 characters (W-1)
     * @return its settings, all with defaults
     */
    public static NodeBuilder builder(String name) {
        return new NodeBuilder(name);
    }

    /**
     * The name.
     *
     * @return as given
     */
    public String name() {
        return runtime.context().name();
    }

    /**
     * How often this name was claimed, this time included.
     *
     * @return from 1
     */
    public int generation() {
        return runtime.context().generation;
    }

    // --- access ---

    /**
     * Lets nodes write here; published before this returns.
     *
     * @param patterns names, or families such as {@code etl.*}
     */
    public void allow(String... patterns) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().policy.allow(patterns);
            runtime.context().registration.allow(runtime.context().policy.allowed());
        }
        runtime.lookAgain();
    }

    /**
     * Takes grants back; envelopes not yet dispatched are discarded.
     *
     * @param patterns names, or families
     */
    public void deny(String... patterns) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().policy.deny(patterns);
            runtime.context().registration.allow(runtime.context().policy.allowed());
        }
    }

    /**
     * The grants in force.
     *
     * @return sorted patterns
     */
    public List<String> allowed() {
        return runtime.context().policy.allowed();
    }

    // --- services ---

    /**
     * Offers a service to all nodes that may write here.
     *
     * @param service its name
     * @param implementation what it does
     */
    public void register(String service, Service implementation) {
        register(service, implementation, null);
    }

    /**
     * Offers a service to some nodes only.
     *
     * @param service its name
     * @param implementation what it does
     * @param allow names or families that may call it; they need this node's grant as well
     */
    public void register(String service, Service implementation, List<String> allow) {
        checkOpen();
        runtime.serving().services.register(service, implementation, allow);
        runtime.serve();
    }

    /**
     * Takes a service back.
     *
     * @param service its name
     */
    public void unregister(String service) {
        runtime.serving().services.unregister(service);
    }

    // --- calls ---

    /**
     * Calls a service of another node with the usual deadline.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @return its result
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    public Object call(String target, String service, Map<String, Object> arguments) {
        return call(target, service, arguments, CALL_TIMEOUT);
    }

    /**
     * Calls a service of another node.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param timeout the deadline, on both sides
     * @return its result
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    public Object call(String target, String service, Map<String, Object> arguments, Duration timeout) {
        return call(target, service, arguments, timeout, null);
    }

    /**
     * Calls a service of another node under a trace context.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param timeout the deadline, on both sides
     * @param traceparent W3C trace context; null takes that of the request at hand (S-13)
     * @return its result
     */
    public Object call(
            String target, String service, Map<String, Object> arguments, Duration timeout, String traceparent) {
        checkOpen();
        return runtime.calls().call(target, service, arguments, timeout, traceparent);
    }

    /**
     * Starts a call with the usual deadline; calls of one thread start in order.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @return ends with the result, or with the exception of {@link #call}
     */
    public CompletableFuture<Object> submit(String target, String service, Map<String, Object> arguments) {
        return submit(target, service, arguments, CALL_TIMEOUT);
    }

    /**
     * Starts a call; calls of one thread start in order. What depends on the future runs on the node's workers.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param timeout the deadline, on both sides
     * @return ends with the result, or with the exception of {@link #call}
     */
    public CompletableFuture<Object> submit(
            String target, String service, Map<String, Object> arguments, Duration timeout) {
        checkOpen();
        return runtime.calls().submit(target, service, arguments, timeout, null);
    }

    /**
     * Measures a round trip to a live node, by HEARTBEAT.
     *
     * @param target name of the node
     * @return the time it took
     */
    public Duration ping(String target) {
        checkOpen();
        long began = System.nanoTime();
        runtime.calls().ask(target, EnvelopeType.HEARTBEAT, Map.of(), ASK_TIMEOUT);
        return Duration.ofNanos(System.nanoTime() - began);
    }

    /**
     * Names of the services of a node that this node may call.
     *
     * @param target name of the node
     * @return sorted names
     */
    public List<String> services(String target) {
        List<?> names = (List<?>) discover(target, "SERVICES").get("services");
        return names.stream().map(String.class::cast).toList();
    }

    /**
     * What a node says about itself: language, version, pid, fabrics, services (S-12).
     *
     * @param target name of the node
     * @return by field name
     */
    public Map<String, Object> info(String target) {
        return discover(target, "INFO");
    }

    /**
     * Counters of another node (S-12, S-14).
     *
     * @param target name of the node
     * @return by field name
     */
    public Map<String, Object> stats(String target) {
        return discover(target, "STATS");
    }

    /**
     * Counters of this node.
     *
     * @return by field name
     */
    public Map<String, Object> stats() {
        return runtime.introspection().answer("STATS", name());
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> discover(String target, String operation) {
        checkOpen();
        return (Map<String, Object>)
                runtime.calls().ask(target, EnvelopeType.DISCOVERY, Map.of("op", operation), ASK_TIMEOUT);
    }

    // --- messages and events ---

    /**
     * Sends one message. It is in the receiver's lane when this returns, as durable as the node.
     *
     * @param target name of the node
     * @param payload a value, or a protobuf message
     * @return the message's id
     */
    public String send(String target, Object payload) {
        return send(target, payload, SendOptions.DEFAULT);
    }

    /**
     * Sends one message. It is in the receiver's lane when this returns, as durable as the node.
     *
     * @param target name of the node
     * @param payload a value, or a protobuf message
     * @param options acknowledgement, longest wait, metadata
     * @return the message's id
     * @throws speed.errors.NotAcknowledgedException when it may or may not be handled
     */
    public String send(String target, Object payload, SendOptions options) {
        checkOpen();
        return runtime.outbox().send(target, payload, options);
    }

    /**
     * Handles messages on the workers, in order for each sender. One handler a node.
     *
     * @param handler an exception is reported to a sender that asked for an acknowledgement
     */
    public void onMessage(Consumer<Message> handler) {
        checkOpen();
        runtime.delivery().onMessage(handler);
    }

    /**
     * The next message; finishes the one returned before.
     *
     * @param timeout longest wait
     * @return null when none came in time
     * @throws InterruptedException when the waiting thread is interrupted; nothing is lost
     */
    public Message receive(Duration timeout) throws InterruptedException {
        checkOpen();
        return runtime.delivery().receive(timeout);
    }

    /**
     * Sends an event to every node that subscribes to its topic and allows this one.
     *
     * @param topic parts of letters and digits, joined by dots
     * @param payload a value, or a protobuf message
     * @return how many nodes got it
     */
    public int publish(String topic, Object payload) {
        return publish(topic, payload, SendOptions.DEFAULT);
    }

    /**
     * Sends an event to every node that subscribes to its topic and allows this one. A node that cannot take it now is
     * counted and does not stop the others.
     *
     * @param topic parts of letters and digits, joined by dots
     * @param payload a value, or a protobuf message
     * @param options longest wait, metadata
     * @return how many nodes got it
     */
    public int publish(String topic, Object payload, SendOptions options) {
        checkOpen();
        return runtime.outbox().publish(topic, payload, options);
    }

    /**
     * Handles events; publishers must be allowed as for messages. Published before this returns.
     *
     * @param pattern a topic, {@code orders.*} or {@code *}
     * @param handler called on the workers, in order for each sender
     */
    public void subscribe(String pattern, Consumer<Message> handler) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().registration.subscribe(runtime.delivery().subscribe(pattern, handler));
        }
    }

    // --- other nodes ---

    /**
     * The live nodes, sorted by name.
     *
     * @return this one too
     */
    public List<NodeInfo> nodes() {
        checkOpen();
        return runtime.context().registry.liveEntries().stream().map(Node::info).toList();
    }

    /**
     * The live nodes that carry a label.
     *
     * @param fabric the label
     * @return sorted by name
     */
    public List<NodeInfo> nodes(String fabric) {
        return nodes().stream().filter(node -> node.fabrics().contains(fabric)).toList();
    }

    /**
     * Waits until a node is live and allows this one.
     *
     * @param target name of the node
     * @param timeout longest wait
     * @return the node
     * @throws UnknownNodeException when it was not so in time
     */
    public NodeInfo waitFor(String target, Duration timeout) {
        checkOpen();
        long deadline = System.nanoTime() + timeout.toNanos();
        while (true) {
            Entry entry = runtime.context().registry.live(target);
            if (entry != null && entry.grants(name())) {
                return info(entry);
            }
            if (System.nanoTime() >= deadline || runtime.context().awaitStop(WAIT_NANOS)) {
                String why = entry == null ? "is not live" : "does not allow '" + name() + "'";
                throw new UnknownNodeException("'" + target + "' " + why + " after " + timeout);
            }
        }
    }

    /**
     * Calls a handler when another node joins.
     *
     * @param handler called on a worker
     */
    public void onJoin(Consumer<NodeInfo> handler) {
        checkOpen();
        runtime.registrar().onJoin(entry -> handler.accept(info(entry)));
    }

    /**
     * Calls a handler when another node leaves, dies or is replaced.
     *
     * @param handler called on a worker
     */
    public void onLeave(Consumer<NodeInfo> handler) {
        checkOpen();
        runtime.registrar().onLeave(entry -> handler.accept(info(entry)));
    }

    /**
     * Removes the entries of nodes that are gone, never their claims.
     *
     * @return their names
     */
    public List<String> removeStale() {
        checkOpen();
        return runtime.context().registry.removeStale();
    }

    // --- life ---

    /**
     * Whether the node can no longer be used: closed, or its name is lost.
     *
     * @return true for good
     */
    public boolean isClosed() {
        return runtime.context().failure() != null;
    }

    /** Leaves in order: stops accepting, finishes work in flight, removes the entry, tells others. */
    @Override
    public void close() {
        close(DRAIN);
    }

    /**
     * Leaves in order. Calling it again does nothing.
     *
     * @param drain longest wait for work in flight
     */
    public void close(Duration drain) {
        if (closed.compareAndSet(false, true)) {
            runtime.stop(new NodeClosedException("node '" + name() + "' was closed"), drain);
        }
    }

    private void checkOpen() {
        runtime.context().checkOpen();
    }

    private static NodeInfo info(Entry entry) {
        return new NodeInfo(entry.name(), entry.generation(), entry.process().host(), entry.process().pid(),
                entry.language(), entry.status(), entry.fabrics(), entry.allow(), entry.subscriptions());
    }

    @Override
    public String toString() {
        return "Node " + name() + " generation " + generation() + (isClosed() ? " (closed)" : "");
    }
}
