package speed;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import speed.fs.KeyFiles;
import speed.message.MessageSecurity;
import speed.runtime.Options;
import speed.runtime.Runtime;
import speed.segment.SegmentLimits;
import speed.wire.Limits;

/** The settings of a node, checked by {@link #open}. Not thread-safe. */
public final class NodeBuilder {
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
    private SegmentLimits segmentLimits = SegmentLimits.DEFAULT;
    private OnError onError = OnError.DEAD_LETTER;
    private int maxDeliveries = Limits.MAX_DELIVERIES;
    private boolean ephemeral;
    private MessageSecurity security;

    NodeBuilder(String name) {
        this.name = name;
    }

    /**
     * The communication directory; by default {@code $SPEED_ROOT}, else a directory of this user.
     *
     * @param path made if it is missing
     * @return these settings
     */
    public NodeBuilder root(Path path) {
        root = path.toString();
        return this;
    }

    /**
     * The key file; by default {@code $SPEED_KEY}, else {@code speed.key} in the root.
     *
     * @param path an existing, private file
     * @return these settings
     */
    public NodeBuilder key(Path path) {
        key = path.toString();
        return this;
    }

    /**
     * Labels for listing and filtering; they decide nothing.
     *
     * @param labels any text
     * @return these settings
     */
    public NodeBuilder fabrics(String... labels) {
        fabrics = List.of(labels);
        return this;
    }

    /**
     * Grants to publish from the first moment, as {@link Node#allow} does later.
     *
     * @param patterns node names, or families such as {@code etl.*}
     * @return these settings
     */
    public NodeBuilder allow(String... patterns) {
        allow = List.of(patterns);
        return this;
    }

    /**
     * When a silent node counts as gone.
     *
     * @param newLease must exceed three heartbeats; default 30 s
     * @param newHeartbeat default 5 s
     * @return these settings
     */
    public NodeBuilder lease(Duration newLease, Duration newHeartbeat) {
        lease = newLease;
        heartbeat = newHeartbeat;
        return this;
    }

    /**
     * How many services run at once, and how many handlers; one more runs of both together, so that neither keeps the
     * other from running.
     *
     * @param count 1 to 256; default 4
     * @return these settings
     */
    public NodeBuilder workers(int count) {
        workers = count;
        return this;
    }

    /**
     * Flushes to disk before a send returns, so that it survives a power cut; without it, it survives a killed process.
     *
     * @return these settings
     */
    public NodeBuilder durable() {
        durable = true;
        return this;
    }

    /**
     * Polls instead of using bells; chosen by itself where the filesystem has none (L-22).
     *
     * @return these settings
     */
    public NodeBuilder polling() {
        polling = true;
        return this;
    }

    /**
     * What may wait in a receiver's lane before a sender waits (L-6).
     *
     * @param bytes default 64 MiB
     * @return these settings
     */
    public NodeBuilder laneBytes(long bytes) {
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
    public NodeBuilder openFiles(int count) {
        openFiles = count;
        return this;
    }

    /**
     * Written into the metadata of messages; isolates tenants or applications.
     *
     * @param text default {@code default}
     * @return these settings
     */
    public NodeBuilder namespace(String text) {
        namespace = text;
        return this;
    }

    /**
     * What may be kept of payloads that come in segments (G-15).
     *
     * @param limits in total and of each sender
     * @return these settings
     */
    public NodeBuilder segmentLimits(SegmentLimits limits) {
        segmentLimits = limits;
        return this;
    }

    /**
     * What becomes of a message or event whose handler failed, or ended the process (S-17).
     *
     * @param policy default: it is a dead letter, which {@code speed dead} lists, shows and has tried again
     * @return these settings
     */
    public NodeBuilder onError(OnError policy) {
        onError = policy;
        return this;
    }

    /**
     * How often a message or event is begun at most, whose handling fails or ends the process each time (S-17).
     *
     * @param count 1 or more; default 5
     * @return these settings
     */
    public NodeBuilder maxDeliveries(int count) {
        maxDeliveries = count;
        return this;
    }

    /**
     * The name will not come back, as that of a worker for one job: nothing waits for the node when it is gone, and all
     * that is left of it in the root is removed.
     *
     * @return these settings
     */
    public NodeBuilder ephemeral() {
        ephemeral = true;
        return this;
    }

    /**
     * How messages are signed, encrypted and checked (M-18); without it none is, and none is opened.
     *
     * @param settings for all that is sent and received
     * @return these settings
     */
    public NodeBuilder security(MessageSecurity settings) {
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
        Path place = Path.of(root != null ? root : KeyFiles.defaultRoot());
        String chosenRoot = place.toAbsolutePath().normalize().toString();
        String chosenKey = key != null ? key : KeyFiles.defaultKey(chosenRoot);
        int chosenFiles = openFiles != null ? openFiles : Options.defaultOpenFiles();
        return new Node(Runtime.start(new Options(name, chosenRoot, chosenKey, fabrics, allow, lease, heartbeat,
                workers, durable, polling, laneBytes, chosenFiles, namespace, segmentLimits, onError, maxDeliveries,
                ephemeral, security)));
    }
}
