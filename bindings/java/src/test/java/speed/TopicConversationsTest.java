package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.errors.SpeedException;
import speed.internal.wire.Contract;
import speed.tool.BenchRoot;
import speed.tool.PlainJson.Notation;
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

/** What a client of durable topics asks its host, and what its program sees, is as published (D-5 to D-14, D-18). */
class TopicConversationsTest {
    private static final List<String> SERVICES =
            List.of("publish", "subscribe", "receive", "acknowledge", "reject", "leave", "read", "describe");

    /** A node that answers as a step says, and notes what it was asked beside that. */
    private static final class ScriptedHost {
        private final Queue<Contract> expected = new ArrayDeque<>();
        private final List<String> surprises = new ArrayList<>();

        ScriptedHost(Node node) {
            SERVICES.forEach(name -> node.register("topics." + name, this::answer));
            node.register(
                    "topics.begin",
                    request -> Map.of(
                            "lane",
                            request.get("lane", String.class),
                            "epoch",
                            request.get("epoch", Long.class),
                            "begun",
                            request.get("offsets", List.class)));
        }

        synchronized void expect(List<Contract> exchanges) {
            expected.addAll(exchanges);
        }

        /** What went otherwise than expected. */
        synchronized List<String> surprises() {
            expected.forEach(one -> surprises.add("never asked: " + one.values()));
            return surprises;
        }

        private synchronized Object answer(Request request) {
            Contract next = expected.poll();
            String call = request.service() + " " + Contract.spelled(request.arguments());
            String awaited = next == null ? "" : next.text("service") + " " + Contract.spelled(next.value("arguments"));
            if (!call.equals(awaited)) {
                surprises.add(call + " instead of " + awaited);
                return Response.error("SURPRISED", "this was not to be asked");
            }
            return next.has("refusal")
                    ? Response.error(next.text("refusal"), "as it was written")
                    : next.value("answer");
        }
    }

    /** Does what the steps of a conversation say. */
    private static final class Program {
        private final Topic topic;
        private final List<TopicMessage> received = new ArrayList<>();
        private Consumer consumer;
        private Reader reader;

        Program(Node node) {
            topic = node.topic("orders");
        }

        Object done(String does, Contract given) throws InterruptedException {
            return switch (does) {
                case "publish" -> shown(topic.publish(given.value("payload"), publishing(given)));
                case "publish_batch" ->
                    topic.publishBatch((List<?>) given.value("payloads"), batch(given)).stream()
                            .map(Program::shown)
                            .toList();
                case "delete_key" -> shown(topic.deleteKey(given.text("key")));
                case "consumer" -> nothing(() -> consumer = topic.consumer(given.text("subscription"), terms(given)));
                case "receive" -> noted(consumer.receive(Duration.ofSeconds(given.number("timeout"))));
                case "acknowledge" -> consumer.acknowledge(received(given).toArray(TopicMessage[]::new));
                case "acknowledge_until" -> consumer.acknowledgeUntil(received.get((int) given.number("message")));
                case "reject" -> rejected(given);
                case "close" -> nothing(consumer::close);
                case "reader" -> nothing(() -> reader = reader(given));
                case "read" -> noted(reader.receive(Duration.ofSeconds(given.number("timeout"))));
                default -> throw new IllegalArgumentException(does);
            };
        }

        private static Object nothing(Runnable act) {
            act.run();
            return null;
        }

        private static Object shown(Kept kept) {
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("offset", kept.offset());
            shown.put("duplicate", kept.duplicate());
            return shown;
        }

        private static String producer(Contract given) {
            return given.has("producer") ? given.text("producer") : "";
        }

        private static long sequence(Contract given) {
            return given.has("sequence") ? given.number("sequence") : 0;
        }

        private static PublishOptions publishing(Contract given) {
            PublishOptions options =
                    PublishOptions.DEFAULT.withKey(given.text("key")).withSequence(producer(given), sequence(given));
            if (given.has("due_ms")) {
                options = options.withTime(Instant.ofEpochMilli(given.number("due_ms")));
            }
            return given.has("properties")
                    ? options.withProperties(texts(given.object("properties").values()))
                    : options;
        }

        private static Map<String, String> texts(Map<?, ?> given) {
            Map<String, String> texts = new LinkedHashMap<>();
            given.forEach((name, text) -> texts.put((String) name, (String) text));
            return texts;
        }

        private static PublishBatchOptions batch(Contract given) {
            List<String> keys = new ArrayList<>();
            if (given.get("keys") instanceof List<?> texts) {
                texts.forEach(text -> keys.add((String) text));
            }
            return PublishBatchOptions.DEFAULT.withKeys(keys).withSequence(producer(given), sequence(given));
        }

        private static ConsumerOptions terms(Contract given) {
            ConsumerOptions options = ConsumerOptions.DEFAULT.withName(given.text("name"));
            if (given.has("prefetch")) {
                options = options.withPrefetch((int) given.number("prefetch"));
            }
            if (given.has("type")) {
                options = options.withType(SubscriptionType.valueOf(
                                given.text("type").toUpperCase(Locale.ROOT).replace('-', '_')))
                        .withStart(start(given.get("start")))
                        .withMaxDeliveries((int) given.number("max_deliveries"))
                        .withAckTimeout(Duration.ofMillis(given.number("ack_timeout_ms")))
                        .withDeadLetters();
            }
            return options;
        }

        private static Start start(Object given) {
            if (given instanceof Map<?, ?> time) {
                return Start.at(Instant.ofEpochMilli((Long) time.get("at_ms")));
            }
            return "earliest".equals(given) ? Start.EARLIEST : Start.LATEST;
        }

        private Reader reader(Contract given) {
            return given.has("compacted")
                    ? topic.compactedReader((int) given.number("prefetch"))
                    : topic.reader(start(given.get("start")));
        }

        private List<TopicMessage> received(Contract given) {
            return ((List<?>) given.get("messages"))
                    .stream()
                            .map(number -> received.get(((Long) number).intValue()))
                            .toList();
        }

        private Object rejected(Contract given) {
            if (!given.has("delay_ms")) {
                return consumer.reject(received(given).get(0));
            }
            return consumer.reject(received(given), Duration.ofMillis(given.number("delay_ms")));
        }

        private Object noted(TopicMessage message) {
            if (message == null) {
                return null;
            }
            received.add(message);
            TopicMessage.Origin origin = message.origin();
            Map<String, Object> seen = new LinkedHashMap<>();
            seen.put("offset", message.offset());
            seen.put("attempts", message.attempts());
            seen.put("redelivered", message.redelivered());
            seen.put("recorded_at_ms", message.recordedAt().toEpochMilli());
            seen.put("payload", message.payload());
            seen.put("key", message.key());
            seen.put("properties", message.properties());
            seen.put("publisher", message.publisher());
            seen.put("producer", message.producer());
            seen.put("sequence", message.sequence());
            seen.put("is_tombstone", message.isTombstone());
            seen.put("origin", origin == null ? null : List.of(origin.topic(), origin.offset(), origin.subscription()));
            seen.put("failed_attempts", message.failedAttempts());
            return seen;
        }
    }

    /** What a step gives, in the program's own words. */
    private static Object expected(Contract step) {
        Object gives = step.get("gives");
        if (gives instanceof Map<?, ?> message && message.containsKey("payload")) {
            Map<Object, Object> expected = new LinkedHashMap<>(message);
            expected.put("payload", Notation.value(message.get("payload")));
            return expected;
        }
        return gives;
    }

    private static void compare(Program program, Contract step) throws InterruptedException {
        Contract given = step.object("given");
        if (step.has("raises")) {
            SpeedException error = assertThrows(SpeedException.class, () -> program.done(step.text("do"), given));
            assertEquals(step.text("raises"), error.code());
            return;
        }
        assertEquals(text(expected(step)), text(program.done(step.text("do"), given)));
    }

    /** As the vectors are read: an int is a Long there. */
    private static String text(Object value) {
        return Contract.spelled(value).replace("Integer ", "Long ");
    }

    @TestFactory
    Stream<DynamicTest> conversationsAreAsPublished() {
        return Contract.vectors("topics").each("conversations", one -> {
            try (BenchRoot root = new BenchRoot(null);
                    Node hosting = root.node(Topic.HOST, "billing");
                    Node billing = root.node("billing", Topic.HOST)) {
                ScriptedHost host = new ScriptedHost(hosting);
                Program program = new Program(billing);
                int number = 0;
                for (Contract step : one.cases("steps")) {
                    host.expect(step.cases("host"));
                    int at = number++;
                    try {
                        compare(program, step);
                    } finally {
                        assertEquals(List.of(), host.surprises(), () -> "step " + at);
                    }
                }
            }
        });
    }
}
