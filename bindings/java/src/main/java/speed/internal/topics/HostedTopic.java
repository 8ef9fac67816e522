package speed.internal.topics;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import speed.Caller;
import speed.Peers;
import speed.errors.ConfigurationException;
import speed.errors.WireException;
import speed.internal.engine.Context.Trace;
import speed.internal.wire.Limits;
import speed.internal.wire.Require;
import speed.internal.wire.TopicDelivery;
import speed.internal.wire.Values;
import speed.topics.Consumer;
import speed.topics.ConsumerOptions;
import speed.topics.Kept;
import speed.topics.PublishBatchOptions;
import speed.topics.PublishOptions;
import speed.topics.Reader;
import speed.topics.Start;
import speed.topics.SubscriptionType;
import speed.topics.Topic;

/** A durable topic, which asks its host and keeps nothing itself. */
public final class HostedTopic implements Topic {
    private static final int BATCH_MESSAGES = 1000;
    private static final int BATCH_BYTES = 4 << 20;

    private final TopicHost host;

    public HostedTopic(Caller caller, Peers peers, String node, String name, String host) {
        this.host = new TopicHost(caller, peers, node, Require.value("name", name), Require.value("host", host));
    }

    @Override
    public String name() {
        return host.topic();
    }

    @Override
    public String host() {
        return host.host();
    }

    // --- publishing ---

    @Override
    public Kept publish(Object payload, PublishOptions options) {
        Require.value("options", options);
        Map<String, Object> message =
                outgoing(payload, options.key(), traced(options.properties()), dueMs(options), options.sequence());
        return one(published(List.of(message), options.producer(), options.owner(), options.timeout()));
    }

    @Override
    public Kept deleteKey(String key) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("payload", new byte[0]);
        message.put("key", Require.value("key", key));
        message.put("tombstone", true);
        return one(published(List.of(message), "", "", Require.CALL_TIMEOUT));
    }

    @Override
    public List<Kept> publishBatch(List<?> payloads, PublishBatchOptions options) {
        List<Kept> kept = new ArrayList<>();
        for (List<Map<String, Object>> batch : batches(outgoing(payloads, options))) {
            kept.addAll(published(batch, options.producer(), options.owner(), options.timeout()));
        }
        return kept;
    }

    private static List<Map<String, Object>> outgoing(List<?> payloads, PublishBatchOptions options) {
        List<String> keys = Require.value("options", options).keys();
        if (!keys.isEmpty()
                && keys.size() != Require.value("payloads", payloads).size()) {
            throw new ConfigurationException(
                    "keys must be as many as the messages, or none: null is for a message without one");
        }
        Map<String, String> properties = traced(options.properties());
        List<Map<String, Object>> messages = new ArrayList<>();
        for (Object payload : Require.value("payloads", payloads)) {
            int at = messages.size();
            messages.add(outgoing(
                    payload,
                    keys.isEmpty() ? null : keys.get(at),
                    properties,
                    0,
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

    /** When it is delivered, in Unix milliseconds; 0 for at once. */
    private static long dueMs(PublishOptions options) {
        if (options.after() != null) {
            return System.currentTimeMillis() + options.after().toMillis();
        }
        return options.at() == null ? 0 : options.at().toEpochMilli();
    }

    /** Properties with the trace at hand, unless they have one, or no room for it. */
    private static Map<String, String> traced(Map<String, String> given) {
        String trace = Trace.orCurrent(null);
        if (trace == null || given.containsKey(TopicDelivery.TRACE) || given.size() >= Limits.MAX_TOPIC_PROPERTIES) {
            return given;
        }
        Map<String, String> traced = new LinkedHashMap<>(given);
        traced.put(TopicDelivery.TRACE, trace);
        return traced;
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
        Map<String, Object> arguments = new LinkedHashMap<>();
        arguments.put("messages", messages);
        if (!producer.isEmpty()) {
            arguments.put("producer", producer);
        }
        if (!owner.isEmpty()) {
            arguments.put("owner", owner);
        }
        TopicHost.Answer answer = host.ask("publish", arguments, timeout);
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

    @Override
    public Consumer consumer(String subscription, ConsumerOptions options) {
        Require.value("subscription", subscription);
        Map<String, Object> terms = new LinkedHashMap<>();
        terms.put("type", word(Require.value("options", options).type()));
        terms.put("start", options.start().value());
        terms.put("max_deliveries", options.maxDeliveries());
        terms.put("ack_timeout_ms", options.ackTimeout().toMillis());
        terms.put("dead_letter", deadLetters(subscription, options.deadLetter()));
        if (!options.durable()) {
            terms.put("durable", false);
        }
        String name = options.name().isEmpty() ? ownName() : options.name();
        HostedConsumer consumer = new HostedConsumer(host, subscription, name, terms, options.prefetch());
        consumer.joinWithin(options.timeout());
        return consumer;
    }

    private String deadLetters(String subscription, String given) {
        if (given == null) {
            return "";
        }
        return given.isEmpty() ? name() + "-" + subscription + "-DLQ" : given;
    }

    private static String word(SubscriptionType type) {
        return type.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    private static String ownName() {
        return "c-" + UUID.randomUUID().toString().replace("-", "").substring(0, 16);
    }

    @Override
    public Reader reader(Start start, int prefetch) {
        return new HostedReader(host, Require.value("start", start), prefetch, false);
    }

    @Override
    public Reader compactedReader(int prefetch) {
        return new HostedReader(host, Start.EARLIEST, prefetch, true);
    }
}
