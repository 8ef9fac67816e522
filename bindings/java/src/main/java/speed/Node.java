package speed;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import speed.errors.NodeClosedException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.runtime.Runtime;
import speed.wire.Entry;

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
 * {@link speed.columns.Column}. Nothing is converted silently.
 *
 * <p>All methods are thread-safe, and throw {@link NodeClosedException} once the node is closed. Threads are daemons:
 * they never keep a program alive.
 */
public final class Node implements Caller, Messenger, Peers, AutoCloseable {
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
     * Lets nodes write here; published before this returns. Where it throws, nothing was granted.
     *
     * @param patterns names, or families such as {@code etl.*}
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     * @throws speed.errors.ConfigurationException when the registry entry has no room for so many
     */
    public void allow(String... patterns) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().policy.allow(runtime.context().registration::allow, patterns);
        }
        runtime.lookAgain();
    }

    /**
     * Takes grants back; envelopes not yet dispatched are discarded.
     *
     * @param patterns names, or families
     * @throws speed.errors.InvalidNameException for a pattern that is neither
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
     * @throws speed.errors.ServiceExistsException when the name is in use here
     * @throws speed.errors.ConfigurationException when there is no implementation
     */
    public void register(String service, Service implementation) {
        register(service, implementation, ServiceOptions.DEFAULT);
    }

    /**
     * Offers a service to some nodes only.
     *
     * @param service its name
     * @param implementation what it does
     * @param allow names or families that may call it; they need this node's grant as well
     * @throws speed.errors.ServiceExistsException when the name is in use here
     */
    public void register(String service, Service implementation, List<String> allow) {
        register(service, implementation, new ServiceOptions(allow, false));
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
    public void register(String service, Service implementation, ServiceOptions options) {
        checkOpen();
        runtime.serving().services.register(service, implementation, options);
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

    @Override
    public Object call(
            String target, String service, Map<String, Object> arguments, Duration timeout, String traceparent) {
        checkOpen();
        return runtime.calls().call(target, service, arguments, timeout, traceparent);
    }

    @Override
    public CompletableFuture<Object> submit(
            String target, String service, Map<String, Object> arguments, Duration timeout) {
        checkOpen();
        return runtime.calls().submit(target, service, arguments, timeout, null);
    }

    // --- messages and events ---

    @Override
    public String send(String target, Object payload, SendOptions options) {
        checkOpen();
        return runtime.outbox().send(target, payload, options);
    }

    /**
     * Sends all payloads to a node in segments from now on: a bridge on the way has a small limit (G-18).
     *
     * @param target name of the node
     * @param segmentSize most bytes of a payload in one segment, a multiple of 64 with parity; 0 ends it
     * @param parityRate parity segments for each data segment, so that what the bridge loses is recovered; 0 for none
     * @throws speed.errors.ConfigurationException for a size or rate that cannot be used
     */
    public void segment(String target, int segmentSize, double parityRate) {
        checkOpen();
        runtime.cut(target, segmentSize, parityRate);
    }

    @Override
    public void sendAll(String target, Iterable<?> payloads, SendOptions options) {
        checkOpen();
        runtime.outbox().sendAll(target, payloads, options);
    }

    @Override
    public void onMessage(Consumer<Message> handler) {
        checkOpen();
        runtime.delivery().onMessage(handler);
    }

    @Override
    public void onBatch(BatchHandler handler, String... topics) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().registration.subscribe(runtime.delivery().onBatch(handler, List.of(topics)));
        }
    }

    @Override
    public Message receive(Duration timeout) throws InterruptedException {
        checkOpen();
        return runtime.delivery().receive(timeout);
    }

    @Override
    public Published publish(String topic, Object payload, SendOptions options) {
        checkOpen();
        return runtime.outbox().publish(topic, payload, options);
    }

    @Override
    public void subscribe(String pattern, Consumer<Message> handler) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().registration.subscribe(runtime.delivery().subscribe(pattern, handler));
        }
    }

    // --- other nodes ---

    @Override
    public List<NodeInfo> nodes() {
        checkOpen();
        return runtime.context().registry.liveEntries().stream().filter(entry -> !entry.isLeaving()).map(Node::info)
                .toList();
    }

    @Override
    public NodeInfo waitFor(String target, Duration timeout) {
        checkOpen();
        return runtime.blocking(() -> awaited(target, timeout));
    }

    private NodeInfo awaited(String target, Duration timeout) {
        long deadline = System.nanoTime() + timeout.toNanos();
        while (true) {
            Entry entry = runtime.context().registry.live(target);
            if (entry != null && !entry.isLeaving() && entry.grants(name())) {
                return info(entry);
            }
            if (System.nanoTime() >= deadline || runtime.context().awaitStop(WAIT_NANOS)) {
                checkOpen();
                String why = entry == null ? "is not live"
                        : entry.isLeaving() ? "is leaving" : "does not allow '" + name() + "'";
                throw new UnknownNodeException("'" + target + "' " + why + " after " + timeout);
            }
        }
    }

    /**
     * Calls a handler, on a thread of its own, when the lease was lost: this node can do nothing more then.
     *
     * @param handler told why
     */
    public void onLost(Consumer<SpeedException> handler) {
        checkOpen();
        runtime.registrar().onLost(handler);
    }

    @Override
    public void onJoin(Consumer<NodeInfo> handler) {
        checkOpen();
        runtime.registrar().onJoin(entry -> handler.accept(info(entry)));
    }

    @Override
    public void onLeave(Consumer<NodeInfo> handler) {
        checkOpen();
        runtime.registrar().onLeave(entry -> handler.accept(info(entry)));
    }

    @Override
    public List<String> removeStale() {
        checkOpen();
        return runtime.context().registry.removeStale();
    }

    @Override
    public Duration ping(String target) {
        checkOpen();
        return runtime.questions().ping(target);
    }

    @Override
    public List<String> services(String target) {
        checkOpen();
        return runtime.questions().services(target);
    }

    @Override
    public Map<String, Object> info(String target) {
        checkOpen();
        return runtime.questions().discover(target, "INFO");
    }

    @Override
    public Map<String, Object> stats(String target) {
        checkOpen();
        return runtime.questions().discover(target, "STATS");
    }

    /**
     * Counters of this node.
     *
     * @return by field name
     */
    public Map<String, Object> stats() {
        return runtime.introspection().answer("STATS", name());
    }

    // --- life ---

    /**
     * Whether the node can no longer be used: closed, or its name is lost.
     *
     * @return true for good
     */
    public boolean isClosed() {
        return runtime.context().hasEnded();
    }

    /**
     * Leaves in order: stops accepting, finishes work in flight, removes the entry, tells others. From inside a
     * service or handler it does not wait for that one, whose answer is then not sent.
     */
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
            runtime.stop(() -> new NodeClosedException("node '" + name() + "' was closed"), drain);
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
