package speed.topics;

/** Who gets the messages of a subscription of a durable topic. */
public enum SubscriptionType {
    /** Its one consumer, all in order. */
    EXCLUSIVE,
    /** The consumer that joined first of those that are there, in order. */
    FAILOVER,
    /** Whoever asks; there is no order. */
    SHARED,
    /** Whoever asks; each key in order, with one consumer at a time. */
    KEY_SHARED
}
