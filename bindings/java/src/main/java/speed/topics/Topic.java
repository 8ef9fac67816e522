package speed.topics;

import java.util.List;

/**
 * A durable topic, whose messages a host keeps for subscriptions; made by {@code node.topic(name)}. Thread-safe. It asks the
 * host, and keeps nothing itself.
 *
 * <pre>{@code
 * node.topic("orders").publish(Map.of("id", 1, "amount", 20.5), PublishOptions.DEFAULT.withKey("customer 7"));
 * }</pre>
 *
 * <p>Its methods throw what {@link speed.Caller#call(String, String, java.util.Map)} does, and
 * {@link speed.errors.ApplicationException} with the codes of the host: UNKNOWN_TOPIC, DENIED, TAKEN, FULL, DAMAGED, and
 * NOT_WRITTEN, after which to try again is right.
 */
public interface Topic {
    /** The host of a topic that names none: the node of speedd that has {@code [topics]}. */
    String HOST = "speedd.topics";

    /** How many messages a reader fetches at once if nothing else is said. */
    int PREFETCH = 100;

    /**
     * The name of the topic.
     *
     * @return as given
     */
    String name();

    /**
     * The node that keeps it.
     *
     * @return as given
     */
    String host();

    // --- publishing ---

    /**
     * Publishes one message without a key: it is kept when this returns.
     *
     * @param payload a value
     * @return where it is kept
     */
    default Kept publish(Object payload) {
        return publish(payload, PublishOptions.DEFAULT);
    }

    /**
     * Publishes one message: it is kept when this returns.
     *
     * @param payload a value
     * @param options key, properties, time, sequence
     * @return where it is kept
     * @throws speed.errors.UnserialisableException for what is no value
     */
    Kept publish(Object payload, PublishOptions options);

    /**
     * Publishes a tombstone: this key has no value any more.
     *
     * @param key of earlier messages
     * @return where it is kept
     */
    Kept deleteKey(String key);

    /**
     * Publishes many messages in their order, up to 1,000 or 4 MiB in one write. On an error those before the write that
     * failed are kept: with a producer, publish all again.
     *
     * @param payloads values
     * @param options keys, properties, sequence
     * @return where they are kept
     * @throws speed.errors.ConfigurationException for another number of keys than messages
     * @throws speed.errors.UnserialisableException for what is no value
     */
    List<Kept> publishBatch(List<?> payloads, PublishBatchOptions options);

    // --- reading ---

    /**
     * Joins a subscription as its one consumer; it is made if it is not there, and begins with what comes.
     *
     * @param subscription its name; what it has acknowledged is remembered for ever
     * @return a consumer, to be closed
     */
    default Consumer consumer(String subscription) {
        return consumer(subscription, ConsumerOptions.DEFAULT);
    }

    /**
     * Joins a subscription; it is made if it is not there.
     *
     * @param subscription its name; what it has acknowledged is remembered for ever
     * @param options its type, where it begins, its bounds
     * @return a consumer, to be closed
     * @throws speed.errors.UnknownNodeException when the host was away for the timeout
     */
    Consumer consumer(String subscription, ConsumerOptions options);

    /**
     * Reads without a subscription.
     *
     * @param start where it begins
     * @return a reader; there is nothing to close
     */
    default Reader reader(Start start) {
        return reader(start, PREFETCH);
    }

    /**
     * Reads without a subscription.
     *
     * @param start where it begins
     * @param prefetch how many messages are fetched at once
     * @return a reader; there is nothing to close
     */
    Reader reader(Start start, int prefetch);

    /**
     * Reads from the earliest message on; of what is there now only the last message of each key, none of a key that was
     * deleted, and all without a key. They are held in memory until they are received. What is published later comes as it
     * is, deletions as well.
     *
     * @param prefetch how many messages are fetched at once
     * @return a reader; there is nothing to close
     */
    Reader compactedReader(int prefetch);

    /**
     * Likewise, with the usual number of messages at once.
     *
     * @return a reader; there is nothing to close
     */
    default Reader compactedReader() {
        return compactedReader(PREFETCH);
    }
}
