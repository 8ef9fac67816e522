package speed.runtime;

import java.time.Duration;
import java.util.List;
import speed.OnError;
import speed.errors.ConfigurationException;
import speed.errors.DurabilityException;
import speed.fs.Filesystem;
import speed.fs.Posix;
import speed.message.MessageSecurity;
import speed.segment.SegmentLimits;

/**
 * The settings of a node, as its builder collected them.
 *
 * @param root absolute path of the communication directory
 * @param key path of the key file
 * @param durable whether sends are flushed to disk (L-7)
 * @param polling whether bells are not used even where they could be (L-22)
 * @param laneBytes what may wait in a receiver's lane (L-6)
 * @param openFiles how many descriptors may be for lanes and links together (L-26)
 * @param segmentLimits what may be kept of payloads that come in segments (G-15)
 * @param onError what becomes of messages that fail (S-17)
 * @param maxDeliveries how often a message is begun at most
 * @param ephemeral whether the name will not come back
 * @param security how messages are protected and checked (M-18); null where none is
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
        int openFiles,
        String namespace,
        SegmentLimits segmentLimits,
        OnError onError,
        int maxDeliveries,
        boolean ephemeral,
        MessageSecurity security) {
    private static final int MAX_WORKERS = 256;
    private static final int MAX_OPEN_FILES = 8192;

    /** For lanes and links together: half of what the process may have, but not more than a node has use for. */
    public static int defaultOpenFiles() {
        return (int) Math.min(MAX_OPEN_FILES, Posix.mostDescriptors() / 2);
    }

    /** ConfigurationException for what cannot be, whatever the root. */
    void check() {
        if (workers < 1 || workers > MAX_WORKERS) {
            throw new ConfigurationException("workers is " + workers + "; use 1 to " + MAX_WORKERS);
        }
        if (maxDeliveries < 1) {
            throw new ConfigurationException("maxDeliveries is " + maxDeliveries + "; use 1 or more");
        }
        if (laneBytes < 1) {
            throw new ConfigurationException("laneBytes is " + laneBytes + "; use a positive number of bytes");
        }
        if (openFiles < 1) {
            throw new ConfigurationException("openFiles is " + openFiles + "; use 1 or more");
        }
    }

    /** DurabilityException where the root cannot give what was asked. */
    void check(Filesystem filesystem) {
        if (durable && filesystem.isMemory()) {
            throw new DurabilityException(
                    root + " lies in memory: it cannot survive a power cut; use a root on a disk, or not durable()");
        }
    }
}
