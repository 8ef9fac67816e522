package speed.topics;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.internal.wire.Require;

/**
 * How many messages of a durable topic are published together. Immutable: each method returns other options.
 *
 * @param keys one for each message, null for one without; none at all for no keys
 * @param properties written beside each
 * @param producer a name for recognising repetitions; empty without
 * @param owner the family of nodes that share this producer; empty for this node alone
 * @param sequence a number for that, of the first message; those behind it count on; 0 without
 * @param timeout deadline of each write
 */
public record PublishBatchOptions(
        List<String> keys,
        Map<String, String> properties,
        String producer,
        String owner,
        long sequence,
        Duration timeout) {
    /** No keys, 30 seconds. */
    public static final PublishBatchOptions DEFAULT =
            new PublishBatchOptions(List.of(), Map.of(), "", "", 0, Require.CALL_TIMEOUT);

    /**
     * Checks what is null; a timeout that is too long to be counted is for ever.
     *
     * @param keys one for each message, null for one without; none at all for no keys
     * @param properties written beside each
     * @param producer a name for recognising repetitions; empty without
     * @param owner the family of nodes that share this producer; empty for this node alone
     * @param sequence a number for that, of the first message; those behind it count on; 0 without
     * @param timeout deadline of each write
     * @throws speed.errors.ConfigurationException for null, but where it may be
     */
    public PublishBatchOptions {
        keys = Collections.unmodifiableList(new ArrayList<>(Require.value("keys", keys)));
        properties = Collections.unmodifiableMap(new LinkedHashMap<>(Require.value("properties", properties)));
        Require.value("producer", producer);
        Require.value("owner", owner);
        timeout = Require.timeout(timeout);
    }

    /**
     * With keys.
     *
     * @param newKeys as many as the messages; null for one without
     * @return such options
     */
    public PublishBatchOptions withKeys(List<String> newKeys) {
        return new PublishBatchOptions(newKeys, properties, producer, owner, sequence, timeout);
    }

    /**
     * With texts beside each payload.
     *
     * @param newProperties by name
     * @return such options
     */
    public PublishBatchOptions withProperties(Map<String, String> newProperties) {
        return new PublishBatchOptions(keys, newProperties, producer, owner, sequence, timeout);
    }

    /**
     * Messages whose sequence is not above the last one of this producer are repetitions, and not kept again.
     *
     * @param newProducer a name
     * @param first sequence of the first message, above 0; those behind it count on
     * @return such options
     */
    public PublishBatchOptions withSequence(String newProducer, long first) {
        return new PublishBatchOptions(keys, properties, newProducer, owner, first, timeout);
    }

    /**
     * Each node has producers of its own; those of a family share theirs: {@code shop} for {@code shop.1} and {@code shop.2}.
     *
     * @param newOwner a family that this node is in
     * @return such options
     */
    public PublishBatchOptions withOwner(String newOwner) {
        return new PublishBatchOptions(keys, properties, producer, newOwner, sequence, timeout);
    }

    /**
     * Another deadline.
     *
     * @param newTimeout of each write
     * @return such options
     */
    public PublishBatchOptions withTimeout(Duration newTimeout) {
        return new PublishBatchOptions(keys, properties, producer, owner, sequence, newTimeout);
    }
}
