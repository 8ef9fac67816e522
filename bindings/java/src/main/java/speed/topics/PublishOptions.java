package speed.topics;

import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import speed.internal.wire.Require;

/**
 * How a message of a durable topic is published. Immutable: each method returns other options.
 *
 * @param key of the message; null without one
 * @param properties written beside it
 * @param after how long shared and key-shared subscriptions do not get it; null for at once
 * @param at when they get it at the earliest; null for at once
 * @param producer a name for recognising repetitions; empty without
 * @param owner the family of nodes that share this producer; empty for this node alone
 * @param sequence a number for that; 0 without
 * @param timeout deadline of the call
 */
public record PublishOptions(
        String key,
        Map<String, String> properties,
        Duration after,
        Instant at,
        String producer,
        String owner,
        long sequence,
        Duration timeout) {
    /** No key, at once, 30 seconds. */
    public static final PublishOptions DEFAULT =
            new PublishOptions(null, Map.of(), null, null, "", "", 0, Require.CALL_TIMEOUT);

    /**
     * Checks what is null; a timeout that is too long to be counted is for ever.
     *
     * @param key of the message; null without one
     * @param properties written beside it
     * @param after how long shared and key-shared subscriptions do not get it; null for at once
     * @param at when they get it at the earliest; null for at once
     * @param producer a name for recognising repetitions; empty without
     * @param owner the family of nodes that share this producer; empty for this node alone
     * @param sequence a number for that; 0 without
     * @param timeout deadline of the call
     * @throws speed.errors.ConfigurationException for null, but where it may be
     */
    public PublishOptions {
        properties = Collections.unmodifiableMap(new LinkedHashMap<>(Require.value("properties", properties)));
        Require.value("producer", producer);
        Require.value("owner", owner);
        timeout = Require.timeout(timeout);
    }

    /**
     * With a key.
     *
     * @param newKey any text; messages of one key stay in order
     * @return such options
     */
    public PublishOptions withKey(String newKey) {
        return new PublishOptions(newKey, properties, after, at, producer, owner, sequence, timeout);
    }

    /**
     * With texts beside the payload.
     *
     * @param newProperties by name
     * @return such options
     */
    public PublishOptions withProperties(Map<String, String> newProperties) {
        return new PublishOptions(key, newProperties, after, at, producer, owner, sequence, timeout);
    }

    /**
     * Shared and key-shared subscriptions get it later.
     *
     * @param delay from the call on
     * @return such options, without another time
     */
    public PublishOptions withDelay(Duration delay) {
        return new PublishOptions(key, properties, Require.timeout(delay), null, producer, owner, sequence, timeout);
    }

    /**
     * Shared and key-shared subscriptions get it at a time, or later.
     *
     * @param time in milliseconds
     * @return such options, without a delay
     */
    public PublishOptions withTime(Instant time) {
        return new PublishOptions(
                key, properties, null, Require.value("time", time), producer, owner, sequence, timeout);
    }

    /**
     * A message whose sequence is not above the last one of this producer is a repetition, and not kept again: after an
     * error, publishing again under the same sequence is safe.
     *
     * @param newProducer a name
     * @param newSequence above 0
     * @return such options
     */
    public PublishOptions withSequence(String newProducer, long newSequence) {
        return new PublishOptions(key, properties, after, at, newProducer, owner, newSequence, timeout);
    }

    /**
     * Each node has producers of its own; those of a family share theirs: {@code shop} for {@code shop.1} and {@code shop.2}.
     *
     * @param newOwner a family that this node is in
     * @return such options
     */
    public PublishOptions withOwner(String newOwner) {
        return new PublishOptions(key, properties, after, at, producer, newOwner, sequence, timeout);
    }

    /**
     * Another deadline.
     *
     * @param newTimeout of the call
     * @return such options
     */
    public PublishOptions withTimeout(Duration newTimeout) {
        return new PublishOptions(key, properties, after, at, producer, owner, sequence, newTimeout);
    }
}
