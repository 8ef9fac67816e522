package speed.options;

import java.time.Duration;
import java.util.List;
import speed.Node;
import speed.errors.ConfigurationException;
import speed.message.MessageSecurity;

/**
 * The settings of a node, as {@link Node.Builder} collected them.
 *
 * @param name of the node
 * @param root path of the communication directory; null for the usual one
 * @param key path of the key file; null for the usual one
 * @param fabrics labels for listing and filtering
 * @param allow grants from the first moment
 * @param lease when a silent node counts as gone
 * @param heartbeat how often the lease is renewed
 * @param workers how many services run at once, and how many handlers
 * @param durable whether sends are flushed to disk
 * @param polling whether bells are not used even where they could be
 * @param laneBytes what may wait in a receiver's lane
 * @param openFiles how many descriptors may be for lanes and links together; null for the usual number
 * @param namespace written into the metadata of messages; those of others are not handed out
 * @param acceptNamespaces further ones whose messages are; {@code *} for all
 * @param segmentLimits what may be kept of payloads that come in segments
 * @param onError what becomes of messages that fail
 * @param maxDeliveries how often a message is begun at most
 * @param ephemeral whether the name will not come back
 * @param starting whether callers wait until {@link Node#ready}
 * @param security how messages are protected and checked; null where none is
 */
public record Options(
        String name,
        String root,
        String key,
        List<String> fabrics,
        List<String> allow,
        Duration lease,
        Duration heartbeat,
        int workers,
        boolean durable,
        boolean polling,
        long laneBytes,
        Integer openFiles,
        String namespace,
        List<String> acceptNamespaces,
        SegmentLimits segmentLimits,
        OnError onError,
        int maxDeliveries,
        boolean ephemeral,
        boolean starting,
        MessageSecurity security) {
    private static final int MAX_WORKERS = 256;

    /**
     * Checks what can be checked without looking at the root.
     *
     * @throws ConfigurationException for a setting that cannot be used
     */
    public void check() {
        if (workers < 1 || workers > MAX_WORKERS) {
            throw new ConfigurationException("workers is " + workers + "; use 1 to " + MAX_WORKERS);
        }
        if (maxDeliveries < 1) {
            throw new ConfigurationException("maxDeliveries is " + maxDeliveries + "; use 1 or more");
        }
        if (laneBytes < 1) {
            throw new ConfigurationException("laneBytes is " + laneBytes + "; use a positive number of bytes");
        }
        if (openFiles != null && openFiles < 1) {
            throw new ConfigurationException("openFiles is " + openFiles + "; use 1 or more");
        }
    }

    /**
     * The same settings with what was left open.
     *
     * @param place absolute path of the communication directory
     * @param keyFile path of the key file
     * @param files how many descriptors may be for lanes and links together
     * @return settings without null but for the security
     */
    public Options completed(String place, String keyFile, int files) {
        return new Options(name, place, keyFile, fabrics, allow, lease, heartbeat, workers, durable, polling, laneBytes,
                files, namespace, acceptNamespaces, segmentLimits, onError, maxDeliveries, ephemeral, starting, security);
    }
}
