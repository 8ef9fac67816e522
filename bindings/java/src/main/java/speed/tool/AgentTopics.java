package speed.tool;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import speed.Node;
import speed.tool.Operation.Fields;
import speed.topics.Consumer;
import speed.topics.ConsumerOptions;
import speed.topics.Kept;
import speed.topics.PublishBatchOptions;
import speed.topics.PublishOptions;
import speed.topics.Reader;
import speed.topics.Start;
import speed.topics.SubscriptionType;
import speed.topics.Topic;
import speed.topics.TopicMessage;

/** What an agent does with durable topics: it publishes, reads, and is one consumer at a time. */
final class AgentTopics {
    private final Node node;
    /** By offset, since it consumes. */
    private final Map<Long, TopicMessage> received = new HashMap<>();

    private Consumer consumer;

    AgentTopics(Node node) {
        this.node = node;
    }

    void addTo(Map<String, Operation> table) {
        table.put("topic_publish", this::publish);
        table.put("topic_publish_batch", this::publishBatch);
        table.put("topic_delete_key", fields -> shown(topic(fields).deleteKey(fields.text("key"))));
        table.put("topic_consume", this::consume);
        table.put("topic_receive", this::receive);
        table.put("topic_acknowledge", this::acknowledge);
        table.put("topic_reject", this::reject);
        table.put("topic_leave", fields -> {
            leave();
            return null;
        });
        table.put("topic_read", this::read);
    }

    private Topic topic(Fields fields) {
        return node.topic(fields.text("topic"));
    }

    private static String text(Fields fields, String name) {
        return fields.get(name) == null ? "" : fields.text(name);
    }

    private static Object shown(Kept kept) {
        return Map.of("offset", kept.offset(), "duplicate", kept.duplicate());
    }

    private Object publish(Fields fields) {
        Map<String, String> properties = new LinkedHashMap<>();
        fields.map("properties").forEach((name, text) -> properties.put(name, (String) text));
        PublishOptions options = PublishOptions.DEFAULT
                .withKey(fields.text("key"))
                .withProperties(properties)
                .withSequence(text(fields, "producer"), fields.number("sequence", 0))
                .withOwner(text(fields, "owner"))
                .withTimeout(fields.seconds("timeout", 30));
        if (fields.get("after") != null) {
            options = options.withDelay(fields.seconds("after", 0));
        }
        return shown(topic(fields).publish(fields.get("payload"), options));
    }

    private Object publishBatch(Fields fields) {
        PublishBatchOptions options =
                PublishBatchOptions.DEFAULT.withSequence(text(fields, "producer"), fields.number("sequence", 0));
        if (fields.get("keys") instanceof List<?> keys) {
            options = options.withKeys(
                    new ArrayList<>(keys.stream().map(String.class::cast).toList()));
        }
        List<Object> all = new ArrayList<>();
        topic(fields).publishBatch((List<?>) fields.get("payloads"), options).forEach(kept -> all.add(shown(kept)));
        return all;
    }

    private Object consume(Fields fields) {
        leave();
        ConsumerOptions options = ConsumerOptions.DEFAULT
                .withStart(start(fields.get("start")))
                .withName(text(fields, "consumer"))
                .withPrefetch(fields.number("prefetch", 100))
                .withMaxDeliveries(fields.number("max_deliveries", 0))
                .withTimeout(fields.seconds("timeout", 30));
        if (fields.get("type") != null) {
            options = options.withType(SubscriptionType.valueOf(
                    fields.text("type").toUpperCase(Locale.ROOT).replace('-', '_')));
        }
        if (fields.get("dead_letter") != null) {
            options = options.withDeadLetters(fields.text("dead_letter"));
        }
        if (Boolean.FALSE.equals(fields.get("durable"))) {
            options = options.withoutDurability();
        }
        consumer = topic(fields).consumer(fields.text("subscription"), options);
        return consumer.name();
    }

    private static Start start(Object given) {
        if (given instanceof Number offset) {
            return Start.offset(offset.longValue());
        }
        if (given instanceof Map<?, ?> time) {
            return Start.at(Instant.ofEpochMilli(((Number) time.get("at_ms")).longValue()));
        }
        return "earliest".equals(given) ? Start.EARLIEST : Start.LATEST;
    }

    private Object receive(Fields fields) throws InterruptedException {
        TopicMessage message = consuming().receive(fields.seconds("timeout", 5));
        if (message == null) {
            return null;
        }
        received.put(message.offset(), message);
        return shown(message);
    }

    private Consumer consuming() {
        if (consumer == null) {
            throw new IllegalArgumentException("nothing is consumed");
        }
        return consumer;
    }

    private TopicMessage received(Fields fields) {
        TopicMessage message = received.get((long) fields.number("offset", -1));
        if (message == null) {
            throw new IllegalArgumentException("nothing was received there");
        }
        return message;
    }

    private Object acknowledge(Fields fields) {
        TopicMessage message = received(fields);
        return Boolean.TRUE.equals(fields.get("until"))
                ? consuming().acknowledgeUntil(message)
                : consuming().acknowledge(message);
    }

    private Object reject(Fields fields) {
        Duration delay = fields.get("delay") == null ? null : fields.seconds("delay", 0);
        return consuming().reject(List.of(received(fields)), delay);
    }

    /** Ends the consumer, if there is one. */
    void leave() {
        if (consumer != null) {
            consumer.close();
            consumer = null;
        }
        received.clear();
    }

    private Object read(Fields fields) throws InterruptedException {
        boolean isCompacted = Boolean.TRUE.equals(fields.get("compacted"));
        Reader reader =
                isCompacted ? topic(fields).compactedReader() : topic(fields).reader(start(fields.get("start")));
        List<Object> messages = new ArrayList<>();
        while (messages.size() < fields.number("count", 1)) {
            TopicMessage message = reader.receive(fields.seconds("timeout", 5));
            if (message == null) {
                break;
            }
            messages.add(shown(message));
        }
        return messages;
    }

    private static Map<String, Object> shown(TopicMessage message) {
        TopicMessage.Origin origin = message.origin();
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("offset", message.offset());
        shown.put("payload", message.payload());
        shown.put("key", message.key());
        shown.put("properties", message.properties());
        shown.put("publisher", message.publisher());
        shown.put("attempts", message.attempts());
        shown.put("producer", message.producer());
        shown.put("sequence", message.sequence());
        shown.put("is_tombstone", message.isTombstone());
        shown.put("origin", origin == null ? null : List.of(origin.topic(), origin.offset(), origin.subscription()));
        shown.put("failed_attempts", message.failedAttempts());
        return shown;
    }
}
