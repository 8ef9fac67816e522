package speed.options;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import speed.errors.ConfigurationException;
import speed.internal.wire.Limits;
import speed.internal.wire.Require;
import speed.message.MessageSecurity;

/**
 * The settings of a node, as its builder collected them. Immutable. An option stands here once: its default, how it is
 * read, and in {@link Builder} how it is set and what it may be.
 */
public final class NodeOptions {
    private static final int MAX_WORKERS = 256;

    private final String name;
    private final Values values;

    private NodeOptions(String name, Values values) {
        this.name = name;
        this.values = values;
    }

    /** The options and their defaults. Written before it is seen by others, and then no more. */
    private static final class Values implements Cloneable {
        private String root;
        private String key;
        private List<String> fabrics = List.of();
        private List<String> allow = List.of();
        private Duration lease = Duration.ofMillis((long) (Limits.LEASE_SECONDS * 1000));
        private Duration heartbeat = Duration.ofMillis((long) (Limits.HEARTBEAT_SECONDS * 1000));
        private int workers = 4;
        private boolean durable;
        private boolean polling;
        private long maxLaneBytes = Limits.LANE_WINDOW_BYTES;
        private int maxOpenFiles;
        private String namespace = "default";
        private List<String> acceptNamespaces = List.of();
        private SegmentLimits segmentLimits = SegmentLimits.DEFAULT;
        private OnError onError = OnError.DEAD_LETTER;
        private int maxDeliveries = Limits.MAX_DELIVERIES;
        private boolean ephemeral;
        private boolean starting;
        private MessageSecurity security;

        Values copy() {
            try {
                return (Values) clone();
            } catch (CloneNotSupportedException impossible) {
                throw new AssertionError(impossible);
            }
        }
    }

    /**
     * The same settings with what was left open.
     *
     * @param root absolute path of the communication directory
     * @param key path of the key file
     * @param files how many descriptors may be for lanes and links together
     * @return settings without null but for the security
     */
    public NodeOptions completed(String root, String key, int files) {
        Values completed = values.copy();
        completed.root = root;
        completed.key = key;
        completed.maxOpenFiles = files;
        return new NodeOptions(name, completed);
    }

    /**
     * The name of the node.
     *
     * @return as given
     */
    public String name() {
        return name;
    }

    /**
     * The communication directory; null for the usual one.
     *
     * @return path
     */
    public String root() {
        return values.root;
    }

    /**
     * The key file; null for the usual one.
     *
     * @return path
     */
    public String key() {
        return values.key;
    }

    /**
     * Labels for listing and filtering.
     *
     * @return any text
     */
    public List<String> fabrics() {
        return values.fabrics;
    }

    /**
     * Grants from the first moment.
     *
     * @return names, or families
     */
    public List<String> allow() {
        return values.allow;
    }

    /**
     * When a silent node counts as gone.
     *
     * @return more than three heartbeats
     */
    public Duration lease() {
        return values.lease;
    }

    /**
     * How often the lease is renewed.
     *
     * @return a time
     */
    public Duration heartbeat() {
        return values.heartbeat;
    }

    /**
     * How many services run at once, and how many handlers.
     *
     * @return 1 to 256
     */
    public int workers() {
        return values.workers;
    }

    /**
     * Whether sends are flushed to disk.
     *
     * @return false unless it was asked for
     */
    public boolean durable() {
        return values.durable;
    }

    /**
     * Whether bells are not used even where they could be.
     *
     * @return false unless it was asked for
     */
    public boolean polling() {
        return values.polling;
    }

    /**
     * What may wait in a receiver's lane.
     *
     * @return bytes
     */
    public long maxLaneBytes() {
        return values.maxLaneBytes;
    }

    /**
     * How many descriptors may be for lanes and links together; 0 for the usual number.
     *
     * @return descriptors
     */
    public int maxOpenFiles() {
        return values.maxOpenFiles;
    }

    /**
     * Written into the metadata of messages; those of others are not handed out.
     *
     * @return text
     */
    public String namespace() {
        return values.namespace;
    }

    /**
     * Further ones whose messages are; {@code *} for all.
     *
     * @return texts
     */
    public List<String> acceptNamespaces() {
        return values.acceptNamespaces;
    }

    /**
     * What may be kept of payloads that come in segments.
     *
     * @return in total and of each sender
     */
    public SegmentLimits segmentLimits() {
        return values.segmentLimits;
    }

    /**
     * What becomes of messages that fail.
     *
     * @return a policy
     */
    public OnError onError() {
        return values.onError;
    }

    /**
     * How often a message is begun at most.
     *
     * @return 1 or more
     */
    public int maxDeliveries() {
        return values.maxDeliveries;
    }

    /**
     * Whether the name will not come back.
     *
     * @return false unless it was asked for
     */
    public boolean ephemeral() {
        return values.ephemeral;
    }

    /**
     * Whether callers wait until the node is ready.
     *
     * @return false unless it was asked for
     */
    public boolean starting() {
        return values.starting;
    }

    /**
     * How messages are protected and checked; null where none is.
     *
     * @return the settings
     */
    public MessageSecurity security() {
        return values.security;
    }

    /**
     * Collects the settings of a node. Not thread-safe.
     *
     * @param <B> what the methods return: the builder itself
     */
    public abstract static class Builder<B extends Builder<B>> {
        private final String name;
        private final Values values = new Values();

        /**
         * All defaults.
         *
         * @param name of the node
         */
        protected Builder(String name) {
            this.name = name;
        }

        /**
         * This builder.
         *
         * @return itself
         */
        protected abstract B self();

        /**
         * What was collected; later changes do not change it.
         *
         * @return the settings
         */
        protected NodeOptions options() {
            return new NodeOptions(name, values.copy());
        }

        /**
         * The communication directory; by default {@code $SPEED_ROOT}, else a directory of this user.
         *
         * @param path made if it is missing
         * @return these settings
         */
        public B root(Path path) {
            values.root = Require.value("root", path).toString();
            return self();
        }

        /**
         * The key file; by default {@code $SPEED_KEY}, else {@code speed.key} in the root.
         *
         * @param path an existing, private file
         * @return these settings
         */
        public B key(Path path) {
            values.key = Require.value("key", path).toString();
            return self();
        }

        /**
         * Labels for listing and filtering; they decide nothing.
         *
         * @param labels any text
         * @return these settings
         */
        public B fabrics(String... labels) {
            values.fabrics = Require.list("fabrics", labels);
            return self();
        }

        /**
         * Grants to publish from the first moment, as {@code Node.allow} does later.
         *
         * @param patterns node names, or families such as {@code etl.*}
         * @return these settings
         */
        public B allow(String... patterns) {
            values.allow = Require.list("allow", patterns);
            return self();
        }

        /**
         * When a silent node counts as gone.
         *
         * @param newLease must exceed three heartbeats; default 30 s
         * @param newHeartbeat default 5 s
         * @return these settings
         */
        public B lease(Duration newLease, Duration newHeartbeat) {
            values.lease = Require.timeout(newLease);
            values.heartbeat = Require.timeout(newHeartbeat);
            return self();
        }

        /**
         * How many services run at once, and how many handlers; one more runs of both together, so that neither keeps the
         * other from running.
         *
         * @param count 1 to 256; default 4
         * @return these settings
         */
        public B workers(int count) {
            values.workers = within("workers", count, 1, MAX_WORKERS);
            return self();
        }

        /**
         * Flushes to disk before a send returns, so that it survives a power cut; without it, it survives a killed process.
         *
         * @return these settings
         */
        public B durable() {
            values.durable = true;
            return self();
        }

        /**
         * Polls instead of using bells; chosen by itself where the filesystem has none.
         *
         * @return these settings
         */
        public B polling() {
            values.polling = true;
            return self();
        }

        /**
         * What may wait in a receiver's lane before a sender waits.
         *
         * @param bytes default 64 MiB
         * @return these settings
         */
        public B maxLaneBytes(long bytes) {
            values.maxLaneBytes = within("maxLaneBytes", bytes, 1, Long.MAX_VALUE);
            return self();
        }

        /**
         * How many files may be open for nodes that write here or are written to, however many there are: those of the node
         * that was heard of longest ago are closed, and opened again when they are needed.
         *
         * @param count 1 or more; default: half of what the process may have ({@code ulimit -n}), at most 8192
         * @return these settings
         */
        public B maxOpenFiles(int count) {
            values.maxOpenFiles = within("maxOpenFiles", count, 1, Integer.MAX_VALUE);
            return self();
        }

        /**
         * Written into the metadata of messages; isolates tenants or applications: those of others are not handed out.
         *
         * @param text default {@code default}
         * @return these settings
         */
        public B namespace(String text) {
            values.namespace = Require.value("namespace", text);
            return self();
        }

        /**
         * Further namespaces whose messages are handed out.
         *
         * @param names {@code *} for all
         * @return these settings
         */
        public B acceptNamespaces(String... names) {
            values.acceptNamespaces = Require.list("acceptNamespaces", names);
            return self();
        }

        /**
         * What may be kept of payloads that come in segments.
         *
         * @param limits in total and of each sender
         * @return these settings
         */
        public B segmentLimits(SegmentLimits limits) {
            values.segmentLimits = Require.value("segmentLimits", limits);
            return self();
        }

        /**
         * What becomes of a message or event whose handler failed, or ended the process.
         *
         * @param policy default: it is a dead letter, which {@code speed dead} lists, shows and has tried again
         * @return these settings
         */
        public B onError(OnError policy) {
            values.onError = Require.value("onError", policy);
            return self();
        }

        /**
         * How often a message or event is begun at most, whose handling fails or ends the process each time.
         *
         * @param count 1 or more; default 5
         * @return these settings
         */
        public B maxDeliveries(int count) {
            values.maxDeliveries = within("maxDeliveries", count, 1, Integer.MAX_VALUE);
            return self();
        }

        /**
         * The node serves once its program calls {@code Node.ready}: until then callers wait, within their deadlines, instead
         * of being refused.
         *
         * @return these settings
         */
        public B starting() {
            values.starting = true;
            return self();
        }

        /**
         * The name will not come back, as that of a worker for one job: nothing waits for the node when it is gone, and all
         * that is left of it in the root is removed.
         *
         * @return these settings
         */
        public B ephemeral() {
            values.ephemeral = true;
            return self();
        }

        /**
         * How messages are signed, encrypted and checked; without it none is, and none is opened.
         *
         * @param settings for all that is sent and received
         * @return these settings
         */
        public B security(MessageSecurity settings) {
            values.security = settings;
            return self();
        }

        private static int within(String option, int value, int least, int most) {
            return (int) within(option, (long) value, least, most);
        }

        private static long within(String option, long value, long least, long most) {
            if (value < least || value > most) {
                throw new ConfigurationException(option + " is " + value + "; use "
                        + (most >= Integer.MAX_VALUE ? least + " or more" : least + " to " + most));
            }
            return value;
        }
    }
}
