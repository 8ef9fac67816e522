package speed.topics;

import java.time.Duration;
import speed.internal.wire.Require;

/**
 * How a consumer joins a subscription of a durable topic. Immutable: each method returns other options.
 *
 * @param type who gets its messages
 * @param start where a new subscription begins
 * @param name of this consumer; empty for one of its own
 * @param prefetch how many messages are fetched at once
 * @param maxDeliveries how often a message is delivered at most; 0 for no bound
 * @param ackTimeout what is not acknowledged in that time comes again; zero for never
 * @param deadLetter the topic that keeps what was delivered so often; empty for {@code {topic}-{subscription}-DLQ}, null
 *     for none: such messages are dropped
 * @param durable whether a new subscription outlives its consumers; one that does not is gone with the last of them, or with
 *     the host, and they join a new one then
 * @param timeout how long a host that is away, or begins anew, is waited for
 */
public record ConsumerOptions(
        SubscriptionType type,
        Start start,
        String name,
        int prefetch,
        int maxDeliveries,
        Duration ackTimeout,
        String deadLetter,
        boolean durable,
        Duration timeout) {
    /** Exclusive, from the latest on, without bounds. */
    public static final ConsumerOptions DEFAULT = new ConsumerOptions(
            SubscriptionType.EXCLUSIVE, Start.LATEST, "", 100, 0, Duration.ZERO, null, true, Require.CALL_TIMEOUT);

    /**
     * Checks what is null; a timeout that is too long to be counted is for ever.
     *
     * @param type who gets its messages
     * @param start where a new subscription begins
     * @param name of this consumer; empty for one of its own
     * @param prefetch how many messages are fetched at once
     * @param maxDeliveries how often a message is delivered at most; 0 for no bound
     * @param ackTimeout what is not acknowledged in that time comes again; zero for never
     * @param deadLetter the topic that keeps what was delivered so often; empty for {@code {topic}-{subscription}-DLQ}, null
     *     for none: such messages are dropped
     * @param durable whether a new subscription outlives its consumers; one that does not is gone with the last of them, or with
     *     the host, and they join a new one then
     * @param timeout how long a host that is away, or begins anew, is waited for
     * @throws speed.errors.ConfigurationException for null, but where it may be
     */
    public ConsumerOptions {
        Require.value("type", type);
        Require.value("start", start);
        Require.value("name", name);
        ackTimeout = Require.timeout(ackTimeout);
        timeout = Require.timeout(timeout);
    }

    /**
     * Another type.
     *
     * @param newType who gets the messages
     * @return such options
     */
    public ConsumerOptions withType(SubscriptionType newType) {
        return new ConsumerOptions(
                newType, start, name, prefetch, maxDeliveries, ackTimeout, deadLetter, durable, timeout);
    }

    /**
     * Another beginning, for a subscription that is new.
     *
     * @param newStart where it begins
     * @return such options
     */
    public ConsumerOptions withStart(Start newStart) {
        return new ConsumerOptions(
                type, newStart, name, prefetch, maxDeliveries, ackTimeout, deadLetter, durable, timeout);
    }

    /**
     * A name for the consumer.
     *
     * @param newName unique in the subscription among those of its node
     * @return such options
     */
    public ConsumerOptions withName(String newName) {
        return new ConsumerOptions(
                type, start, newName, prefetch, maxDeliveries, ackTimeout, deadLetter, durable, timeout);
    }

    /**
     * Another number of messages that are fetched at once.
     *
     * @param newPrefetch 1 or more
     * @return such options
     */
    public ConsumerOptions withPrefetch(int newPrefetch) {
        return new ConsumerOptions(
                type, start, name, newPrefetch, maxDeliveries, ackTimeout, deadLetter, durable, timeout);
    }

    /**
     * What was delivered so often, and not acknowledged, is dropped, or is a dead letter.
     *
     * @param count how often a message is delivered at most; 0 for no bound
     * @return such options
     */
    public ConsumerOptions withMaxDeliveries(int count) {
        return new ConsumerOptions(type, start, name, prefetch, count, ackTimeout, deadLetter, durable, timeout);
    }

    /**
     * What is not acknowledged in time comes again.
     *
     * @param newAckTimeout in milliseconds; zero for never
     * @return such options
     */
    public ConsumerOptions withAckTimeout(Duration newAckTimeout) {
        return new ConsumerOptions(
                type, start, name, prefetch, maxDeliveries, newAckTimeout, deadLetter, durable, timeout);
    }

    /**
     * Keeps what was delivered as often as it may be in the topic {@code {topic}-{subscription}-DLQ}.
     *
     * @return such options
     */
    public ConsumerOptions withDeadLetters() {
        return withDeadLetters("");
    }

    /**
     * Keeps what was delivered as often as it may be in another topic.
     *
     * @param topic its name
     * @return such options
     */
    public ConsumerOptions withDeadLetters(String topic) {
        return new ConsumerOptions(type, start, name, prefetch, maxDeliveries, ackTimeout, topic, durable, timeout);
    }

    /**
     * A new subscription ends with its last consumer.
     *
     * @return such options
     */
    public ConsumerOptions withoutDurability() {
        return new ConsumerOptions(type, start, name, prefetch, maxDeliveries, ackTimeout, deadLetter, false, timeout);
    }

    /**
     * Another wait for a host that is away.
     *
     * @param newTimeout the longest
     * @return such options
     */
    public ConsumerOptions withTimeout(Duration newTimeout) {
        return new ConsumerOptions(
                type, start, name, prefetch, maxDeliveries, ackTimeout, deadLetter, durable, newTimeout);
    }
}
