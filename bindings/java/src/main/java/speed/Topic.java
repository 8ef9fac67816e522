package speed;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import speed.errors.ConfigurationException;
import speed.errors.WireException;
import speed.wire.Given;
import speed.wire.Values;

/**
 * A durable topic, whose messages a host keeps for subscriptions; made by {@code node.topic(name)}. Thread-safe. It asks the
 * host, and keeps nothing itself.
 *
 * <pre>{@code
 * node.topic("orders").publish(Map.of("id", 1, "amount", 20.5), PublishOptions.DEFAULT.withKey("customer 7"));
 * }</pre>
 *
 * <p>Its methods throw what {@link Caller#call(String, String, Map)} does, and {@link speed.errors.ApplicationException} with
 * the codes of the host: UNKNOWN_TOPIC, DENIED, TAKEN, FULL, DAMAGED, and NOT_WRITTEN, after which to try again is right.
 */
public final class Topic {
    /** The host of a topic that names none: the node of speedd that has {@code [topics]}. */
    public static final String HOST = "speedd.topics";

    private static final int PREFETCH = 100;
    private static final int BATCH_MESSAGES = 1000;
    private static final int BATCH_BYTES = 4 << 20;

    private final TopicHost host;

    Topic(Caller caller, Peers peers, String node, String name, String host) {
        this.host = new TopicHost(caller, peers, node, Given.value("name", name), Given.value("host", host));
    }

    /**
     * The name of the topic.
     *
     * @return as given
     */
    public String name() {
        return host.topic();
    }

    /**
     * The node that keeps it.
     *
     * @return as given
     */
    public String host() {
        return host.host();
    }

    // --- publishing ---

    /**
     * Publishes one message without a key: it is kept when this returns.
     *
     * @param payload a value
     * @return where it is kept
     */
    public Kept publish(Object payload) {
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
    public Kept publish(Object payload, PublishOptions options) {
        Given.value("options", options);
        Map<String, Object> message =
                outgoing(payload, options.key(), options.properties(), options.dueMs(), options.sequence());
        return one(published(List.of(message), options.producer(), options.owner(), options.timeout()));
    }

    /**
     * Publishes a tombstone: this key has no value any more.
     *
     * @param key of earlier messages
     * @return where it is kept
     */
    public Kept deleteKey(String key) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("payload", new byte[0]);
        message.put("key", Given.value("key", key));
        message.put("tombstone", true);
        return one(published(List.of(message), "", "", Caller.CALL_TIMEOUT));
    }

    /**
     * Publishes many messages in their order, up to 1,000 or 4 MiB in one write. On an error those before the write that
     * failed are kept: with a producer, publish all again.
     *
     * @param payloads values
     * @param options keys, properties, sequence
     * @return where they are kept
     * @throws ConfigurationException for another number of keys than messages
     * @throws speed.errors.UnserialisableException for what is no value
     */
    public List<Kept> publishBatch(List<?> payloads, PublishBatchOptions options) {
        List<Kept> kept = new ArrayList<>();
        for (List<Map<String, Object>> batch : batches(outgoing(payloads, options))) {
            kept.addAll(published(batch, options.producer(), options.owner(), options.timeout()));
        }
        return kept;
    }

    private static List<Map<String, Object>> outgoing(List<?> payloads, PublishBatchOptions options) {
        List<String> keys = Given.value("options", options).keys();
        if (!keys.isEmpty() && keys.size() != Given.value("payloads", payloads).size()) {
            throw new ConfigurationException("keys must be as many as the messages, or none: null is for a message without one");
        }
        List<Map<String, Object>> messages = new ArrayList<>();
        for (Object payload : Given.value("payloads", payloads)) {
            int at = messages.size();
            messages.add(outgoing(payload, keys.isEmpty() ? null : keys.get(at), options.properties(), 0,
                    options.sequence() == 0 ? 0 : options.sequence() + at));
        }
        return messages;
    }

    /** What goes in one write each. */
    private static List<List<Map<String, Object>>> batches(List<Map<String, Object>> messages) {
        List<List<Map<String, Object>>> batches = new ArrayList<>();
        List<Map<String, Object>> last = List.of();
        int size = 0;
        for (Map<String, Object> message : messages) {
            int bytes = ((byte[]) message.get("payload")).length;
            if (last.isEmpty() || last.size() >= BATCH_MESSAGES || size + bytes > BATCH_BYTES) {
                batches.add(last = new ArrayList<>());
                size = 0;
            }
            last.add(message);
            size += bytes;
        }
        return batches;
    }

    private static Map<String, Object> outgoing(
            Object payload, String key, Map<String, String> properties, long dueMs, long sequence) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("payload", Values.encode(payload, "payload"));
        if (key != null) {
            message.put("key", key);
        }
        if (!properties.isEmpty()) {
            message.put("properties", properties);
        }
        if (dueMs != 0) {
            message.put("due_ms", dueMs);
        }
        if (sequence != 0) {
            message.put("sequence", sequence);
        }
        return message;
    }

    /** Publishes by one write. */
    private List<Kept> published(List<Map<String, Object>> messages, String producer, String owner, Duration timeout) {
        Map<String, Object> asked = new LinkedHashMap<>();
        asked.put("messages", messages);
        if (!producer.isEmpty()) {
            asked.put("producer", producer);
        }
        if (!owner.isEmpty()) {
            asked.put("owner", owner);
        }
        TopicHost.Answer answer = host.ask("publish", asked, timeout);
        List<Kept> kept = new ArrayList<>();
        for (long offset : answer.get("offsets", long[].class)) {
            kept.add(new Kept(offset, offset < 0));
        }
        for (int place : answer.get("repeated", int[].class)) {
            if (place < 0 || place >= kept.size()) {
                throw new WireException("BAD_PAYLOAD", "the host's answer has a repetition of no message");
            }
            kept.set(place, new Kept(kept.get(place).offset(), true));
        }
        return kept;
    }

    private static Kept one(List<Kept> offsets) {
        if (offsets.size() != 1) {
            throw new WireException("BAD_PAYLOAD", "the host's answer has not one offset for one message");
        }
        return offsets.get(0);
    }

    // --- reading ---

    /**
     * Joins a subscription as its one consumer; it is made if it is not there, and begins with what comes.
     *
     * @param subscription its name; what it has acknowledged is remembered for ever
     * @return a consumer, to be closed
     */
    public Consumer consumer(String subscription) {
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
    public Consumer consumer(String subscription, ConsumerOptions options) {
        Given.value("subscription", subscription);
        Map<String, Object> terms = new LinkedHashMap<>();
        terms.put("type", Given.value("options", options).type().text());
        terms.put("start", options.start().value());
        terms.put("max_deliveries", options.maxDeliveries());
        terms.put("ack_timeout_ms", options.ackTimeout().toMillis());
        terms.put("dead_letter", deadLetters(subscription, options.deadLetter()));
        if (!options.durable()) {
            terms.put("durable", false);
        }
        String name = options.name().isEmpty() ? ownName() : options.name();
        Consumer consumer = new Consumer(host, subscription, name, terms, options.prefetch());
        consumer.joinWithin(options.timeout());
        return consumer;
    }

    private String deadLetters(String subscription, String given) {
        if (given == null) {
            return "";
        }
        return given.isEmpty() ? name() + "-" + subscription + "-DLQ" : given;
    }

    private static String ownName() {
        return "c-" + UUID.randomUUID().toString().replace("-", "").substring(0, 16);
    }

    /**
     * Reads without a subscription.
     *
     * @param start where it begins
     * @return a reader; there is nothing to close
     */
    public Reader reader(Start start) {
        return reader(start, PREFETCH);
    }

    /**
     * Reads without a subscription.
     *
     * @param start where it begins
     * @param prefetch how many messages are fetched at once
     * @return a reader; there is nothing to close
     */
    public Reader reader(Start start, int prefetch) {
        return new Reader(host, Given.value("start", start), prefetch, false);
    }

    /**
     * Reads from the earliest message on; of what is there now only the last message of each key, none of a key that was
     * deleted, and all without a key. They are held in memory until they are received. What is published later comes as it
     * is, deletions as well.
     *
     * @param prefetch how many messages are fetched at once
     * @return a reader; there is nothing to close
     */
    public Reader compactedReader(int prefetch) {
        return new Reader(host, Start.EARLIEST, prefetch, true);
    }

    /**
     * Likewise, with the usual number of messages at once.
     *
     * @return a reader; there is nothing to close
     */
    public Reader compactedReader() {
        return compactedReader(PREFETCH);
    }
}
