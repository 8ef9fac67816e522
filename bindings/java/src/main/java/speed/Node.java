package speed;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.function.Consumer;
import speed.errors.ConfigurationException;
import speed.errors.NodeClosedException;
import speed.errors.SpeedException;
import speed.message.AuditLog;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.segment.SegmentLimits;
import speed.wire.Given;
import speed.wire.Limits;

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
 * <p>All methods are thread-safe, and throw {@link NodeClosedException} once the node is closed. Threads are daemons:
 * they never keep a program alive.
 */
public interface Node extends Caller, Messenger, Peers, AutoCloseable {
    /**
     * Begins a node.
     *
     * @param name unique among the live nodes of a root; 1 to 128 characters
     * @return its settings, all with defaults
     */
    static Builder builder(String name) {
        return new Builder(Given.value("name", name));
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
     * @param patterns names, or families such as {@code etl.*}
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     * @throws speed.errors.ConfigurationException when the registry entry has no room for so many
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
        register(service, implementation, ServiceOptions.DEFAULT.withAllow(Given.value("allow", allow).toArray(new String[0])));
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
    default Topic topic(String name, String host) {
        return new Topic(this, this, name(), name, host);
    }

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

    /** Runs nodes. A program never needs it: {@link Builder#open} finds the one that this library brings. */
    interface Engine {
        /**
         * Claims the name and starts the node.
         *
         * @param options its settings
         * @return a running node
         */
        Node start(Options options);

        /**
         * Makes a root and its key where they are missing, for {@link Root#init()}.
         *
         * @param root the directory; null for the one of the environment
         * @param key the key file; null for the one of the environment, else the root's
         * @return the absolute path of the root
         */
        Path makeRoot(Path root, Path key);

        /**
         * Opens a file for audit lines, for {@link AuditFile}.
         *
         * @param path the file
         * @param maxBytes beyond which it gets another name
         * @param kept how many of those there are
         * @return the open log
         */
        AuditLog openAudit(Path path, long maxBytes, int kept);

        /**
         * Reads a set of keys, for {@link KeySet}.
         *
         * @param uri where it is
         * @return the keys
         */
        List<MessageKey> readKeys(String uri);
    }

    /** The settings of a node, checked by {@link #open}. Not thread-safe. */
    final class Builder {
        private final String name;
        private String root;
        private String key;
        private List<String> fabrics = List.of();
        private List<String> allow = List.of();
        private Duration lease = Duration.ofMillis((long) (Limits.LEASE_SECONDS * 1000));
        private Duration heartbeat = Duration.ofMillis((long) (Limits.HEARTBEAT_SECONDS * 1000));
        private int workers = 4;
        private boolean durable;
        private boolean polling;
        private long laneBytes = Limits.LANE_WINDOW_BYTES;
        private Integer openFiles;
        private String namespace = "default";
        private List<String> acceptNamespaces = List.of();
        private SegmentLimits segmentLimits = SegmentLimits.DEFAULT;
        private OnError onError = OnError.DEAD_LETTER;
        private int maxDeliveries = Limits.MAX_DELIVERIES;
        private boolean ephemeral;
        private boolean starting;
        private MessageSecurity security;

        private Builder(String name) {
            this.name = name;
        }

        /**
         * The communication directory; by default {@code $SPEED_ROOT}, else a directory of this user.
         *
         * @param path made if it is missing
         * @return these settings
         */
        public Builder root(Path path) {
            root = Given.value("root", path).toString();
            return this;
        }

        /**
         * The key file; by default {@code $SPEED_KEY}, else {@code speed.key} in the root.
         *
         * @param path an existing, private file
         * @return these settings
         */
        public Builder key(Path path) {
            key = Given.value("key", path).toString();
            return this;
        }

        /**
         * Labels for listing and filtering; they decide nothing.
         *
         * @param labels any text
         * @return these settings
         */
        public Builder fabrics(String... labels) {
            fabrics = Given.list("fabrics", labels);
            return this;
        }

        /**
         * Grants to publish from the first moment, as {@link Node#allow} does later.
         *
         * @param patterns node names, or families such as {@code etl.*}
         * @return these settings
         */
        public Builder allow(String... patterns) {
            allow = Given.list("allow", patterns);
            return this;
        }

        /**
         * When a silent node counts as gone.
         *
         * @param newLease must exceed three heartbeats; default 30 s
         * @param newHeartbeat default 5 s
         * @return these settings
         */
        public Builder lease(Duration newLease, Duration newHeartbeat) {
            lease = Given.timeout(newLease);
            heartbeat = Given.timeout(newHeartbeat);
            return this;
        }

        /**
         * How many services run at once, and how many handlers; one more runs of both together, so that neither keeps the
         * other from running.
         *
         * @param count 1 to 256; default 4
         * @return these settings
         */
        public Builder workers(int count) {
            workers = count;
            return this;
        }

        /**
         * Flushes to disk before a send returns, so that it survives a power cut; without it, it survives a killed process.
         *
         * @return these settings
         */
        public Builder durable() {
            durable = true;
            return this;
        }

        /**
         * Polls instead of using bells; chosen by itself where the filesystem has none.
         *
         * @return these settings
         */
        public Builder polling() {
            polling = true;
            return this;
        }

        /**
         * What may wait in a receiver's lane before a sender waits.
         *
         * @param bytes default 64 MiB
         * @return these settings
         */
        public Builder laneBytes(long bytes) {
            laneBytes = bytes;
            return this;
        }

        /**
         * How many files may be open for nodes that write here or are written to, however many there are: those of the node
         * that was heard of longest ago are closed, and opened again when they are needed.
         *
         * @param count 1 or more; default: half of what the process may have ({@code ulimit -n}), at most 8192
         * @return these settings
         */
        public Builder openFiles(int count) {
            openFiles = count;
            return this;
        }

        /**
         * Written into the metadata of messages; isolates tenants or applications: those of others are not handed out.
         *
         * @param text default {@code default}
         * @return these settings
         */
        public Builder namespace(String text) {
            namespace = Given.value("namespace", text);
            return this;
        }

        /**
         * Further namespaces whose messages are handed out.
         *
         * @param names {@code *} for all
         * @return these settings
         */
        public Builder acceptNamespaces(String... names) {
            acceptNamespaces = Given.list("acceptNamespaces", names);
            return this;
        }

        /**
         * What may be kept of payloads that come in segments.
         *
         * @param limits in total and of each sender
         * @return these settings
         */
        public Builder segmentLimits(SegmentLimits limits) {
            segmentLimits = Given.value("segmentLimits", limits);
            return this;
        }

        /**
         * What becomes of a message or event whose handler failed, or ended the process.
         *
         * @param policy default: it is a dead letter, which {@code speed dead} lists, shows and has tried again
         * @return these settings
         */
        public Builder onError(OnError policy) {
            onError = Given.value("onError", policy);
            return this;
        }

        /**
         * How often a message or event is begun at most, whose handling fails or ends the process each time.
         *
         * @param count 1 or more; default 5
         * @return these settings
         */
        public Builder maxDeliveries(int count) {
            maxDeliveries = count;
            return this;
        }

        /**
         * The node serves once its program calls {@link Node#ready}: until then callers wait, within their deadlines, instead
         * of being refused.
         *
         * @return this
         */
        public Builder starting() {
            starting = true;
            return this;
        }

        /**
         * The name will not come back, as that of a worker for one job: nothing waits for the node when it is gone, and all
         * that is left of it in the root is removed.
         *
         * @return these settings
         */
        public Builder ephemeral() {
            ephemeral = true;
            return this;
        }

        /**
         * How messages are signed, encrypted and checked; without it none is, and none is opened.
         *
         * @param settings for all that is sent and received
         * @return these settings
         */
        public Builder security(MessageSecurity settings) {
            security = settings;
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
            Options options = new Options(name, root, key, fabrics, allow, lease, heartbeat, workers, durable, polling,
                    laneBytes, openFiles, namespace, acceptNamespaces, segmentLimits, onError, maxDeliveries, ephemeral, starting, security);
            return engine().start(options);
        }

        /** The one beside this interface, whatever class loader the program's thread has. */
        static Engine engine() {
            return ServiceLoader.load(Engine.class, Engine.class.getClassLoader()).findFirst().orElseThrow(
                    () -> new ConfigurationException("no engine is on the class path: META-INF/services of speed is missing"));
        }
    }
}
