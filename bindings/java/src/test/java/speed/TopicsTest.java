package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.AccessDeniedException;
import speed.errors.ConfigurationException;
import speed.errors.NodeClosedException;
import speed.errors.UnknownNodeException;
import speed.errors.WireException;
import speed.internal.wire.Contract;
import speed.internal.wire.TopicDelivery;
import speed.internal.wire.TopicRecord;
import speed.internal.wire.Values;
import speed.options.CallOptions;
import speed.tool.BenchRoot;
import speed.topics.Consumer;
import speed.topics.ConsumerOptions;
import speed.topics.PublishBatchOptions;
import speed.topics.PublishOptions;
import speed.topics.Reader;
import speed.topics.Start;
import speed.topics.Topic;
import speed.topics.TopicMessage;

/** Clients of durable topics beside what is published of their conversations. */
@Timeout(300)
class TopicsTest {
    private static final Duration SOON = Duration.ofSeconds(60);
    private static final String TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    private BenchRoot root;
    private Node hosting;
    private Node billing;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        hosting = root.node(Topic.HOST, "billing");
        billing = root.node("billing", Topic.HOST);
    }

    @AfterEach
    void close() throws IOException {
        billing.close();
        hosting.close();
        root.close();
    }

    private AtomicInteger letsConsumersJoin() {
        AtomicInteger left = new AtomicInteger();
        hosting.register("topics.subscribe", request -> Map.of("lane", "x", "cursor", 0));
        hosting.register("topics.leave", request -> {
            left.incrementAndGet();
            return Map.of();
        });
        return left;
    }

    @Test
    void aBatchGoesInWritesOfAThousand() {
        List<Integer> writes = Collections.synchronizedList(new ArrayList<>());
        hosting.register("topics.publish", request -> {
            int count = request.get("messages", List.class).size();
            writes.add(count);
            return Map.of("lane", "x", "offsets", Collections.nCopies(count, 7), "repeated", List.of());
        });
        List<Integer> payloads = Collections.nCopies(1001, 1);
        assertEquals(
                1001,
                billing.topic("orders")
                        .publishBatch(payloads, PublishBatchOptions.DEFAULT)
                        .size());
        assertEquals(List.of(1000, 1), writes);
    }

    @Test
    void oneWriteHoldsFourMebibytes() {
        List<Integer> writes = Collections.synchronizedList(new ArrayList<>());
        hosting.register("topics.publish", request -> {
            writes.add(request.get("messages", List.class).size());
            return Map.of("lane", "x", "offsets", List.of(7), "repeated", List.of());
        });
        List<byte[]> payloads = Collections.nCopies(2, new byte[3 << 20]);
        billing.topic("orders").publishBatch(payloads, PublishBatchOptions.DEFAULT);
        assertEquals(List.of(1, 1), writes);
    }

    @Test
    void whatIsDueLaterSaysWhen() {
        CompletableFuture<Long> due = new CompletableFuture<>();
        hosting.register("topics.publish", request -> {
            due.complete((Long) ((Map<?, ?>) request.get("messages", List.class).get(0)).get("due_ms"));
            return Map.of("lane", "x", "offsets", List.of(0), "repeated", List.of());
        });
        PublishOptions atATime = PublishOptions.DEFAULT.withTime(Instant.EPOCH);
        assertNull(atATime.withDelay(SOON).at());
        long before = System.currentTimeMillis();
        billing.topic("orders").publish(1, atATime.withDelay(Duration.ofMinutes(1)));
        assertTrue(due.join() >= before + 60_000);
    }

    /** D-29: what the host is told of the properties of a message that a service publishes, under a trace. */
    private Map<?, ?> publishedUnderATrace(Map<String, String> given) {
        CompletableFuture<Map<?, ?>> told = new CompletableFuture<>();
        hosting.register("topics.publish", request -> {
            Object properties = ((Map<?, ?>) request.get("messages", List.class).get(0)).get("properties");
            told.complete(properties == null ? Map.of() : (Map<?, ?>) properties);
            return Map.of("lane", "x", "offsets", List.of(0), "repeated", List.of());
        });
        billing.register("order", request -> {
            billing.topic("orders").publish(1, PublishOptions.DEFAULT.withProperties(given));
            return null;
        });
        hosting.call("billing", "order", Map.of(), CallOptions.DEFAULT.withTraceparent(TRACE));
        hosting.unregister("topics.publish");
        billing.unregister("order");
        return told.join();
    }

    @Test
    void whatAServicePublishesCarriesItsTraceOnUnlessItGivesAnother() {
        assertEquals(Map.of("a", "b", "traceparent", TRACE), publishedUnderATrace(Map.of("a", "b")));
        Map<String, String> own = Map.of("traceparent", "of its own");
        assertEquals(own, publishedUnderATrace(own));
        Map<String, String> full = new HashMap<>();
        while (full.size() < 64) {
            full.put("property " + full.size(), "");
        }
        assertEquals(full, publishedUnderATrace(full));
    }

    @Test
    void aBatchCarriesTheTraceOnAsWell() {
        CompletableFuture<Object> told = new CompletableFuture<>();
        hosting.register("topics.publish", request -> {
            told.complete(((Map<?, ?>) request.get("messages", List.class).get(1)).get("properties"));
            return Map.of("lane", "x", "offsets", List.of(0, 1), "repeated", List.of());
        });
        billing.register("orders", request -> {
            billing.topic("orders").publishBatch(List.of(1, 2), PublishBatchOptions.DEFAULT);
            return null;
        });
        hosting.call("billing", "orders", Map.of(), CallOptions.DEFAULT.withTraceparent(TRACE));
        assertEquals(Map.of("traceparent", TRACE), told.join());
    }

    @Test
    void aMessageTellsTheTraceOfItsPublisherIfThatIsOne() {
        Map<String, String> told = new HashMap<>();
        for (String given : List.of(TRACE, "of its own", "")) {
            told.put(given, traceOf(Map.of("traceparent", given)));
        }
        Map<String, String> expected = new HashMap<>();
        expected.put(TRACE, TRACE);
        expected.put("of its own", null);
        expected.put("", null);
        assertEquals(expected, told);
        assertNull(traceOf(Map.of()));
    }

    private static String traceOf(Map<String, String> properties) {
        TopicRecord record = new TopicRecord(0, 0, 0, 0, 0, Map.of(), Values.encode(1, "payload"));
        TopicDelivery.Metadata metadata = new TopicDelivery.Metadata(null, properties, "shop", "", null);
        TopicDelivery delivery = new TopicDelivery("orders", "x", 0, 0, 1, 0, record, metadata);
        return ((TopicMessage) TopicDelivery.MESSAGES.get().apply(delivery)).traceparent();
    }

    @Test
    void whatCannotBeMeantIsRefusedBeforeTheHostIsCalled() {
        Topic orders = billing.topic("orders");
        PublishBatchOptions oneKey = PublishBatchOptions.DEFAULT.withKeys(List.of("one"));
        assertThrows(ConfigurationException.class, () -> orders.publishBatch(List.of(1, 2), oneKey));
        assertThrows(ConfigurationException.class, () -> orders.publishBatch(null, PublishBatchOptions.DEFAULT));
        assertThrows(ConfigurationException.class, () -> orders.publish(1, null));
        assertThrows(ConfigurationException.class, () -> orders.consumer(null));
        assertThrows(ConfigurationException.class, () -> billing.topic(null));
    }

    @Test
    void aHostThatIsAwayIsWaitedForAsLongAsItIsAllowed() {
        ConsumerOptions shortly = ConsumerOptions.DEFAULT.withTimeout(Duration.ofMillis(200));
        assertThrows(
                UnknownNodeException.class,
                () -> billing.topic("orders", "absent").consumer("billing", shortly));
    }

    @Test
    void closingEndsWhoWaits() throws Exception {
        CountDownLatch polled = new CountDownLatch(1);
        CountDownLatch left = new CountDownLatch(1);
        hosting.register("topics.subscribe", request -> Map.of("lane", "x", "cursor", 0));
        hosting.register("topics.receive", request -> {
            polled.countDown();
            left.await();
            return Map.of("lane", "x", "batch", 0, "messages", List.of());
        });
        hosting.register("topics.leave", request -> {
            left.countDown();
            return Map.of();
        });
        Consumer consumer = billing.topic("orders").consumer("billing");
        FutureTask<TopicMessage> waits = new FutureTask<>(consumer::receive);
        new Thread(waits, "waits").start();
        polled.await();
        consumer.close();
        assertNull(waits.get(60, TimeUnit.SECONDS));
    }

    /** A subscription with four messages; who seeks gives it another epoch. */
    private final class FourMessages {
        private final List<List<?>> begun = Collections.synchronizedList(new ArrayList<>());
        private volatile long epoch = 1;

        FourMessages() {
            letsConsumersJoin();
            byte[] record =
                    Contract.vectors("topics").cases("records_valid").get(0).bytes("hex");
            hosting.register(
                    "topics.receive",
                    request -> Map.of(
                            "lane",
                            "x",
                            "epoch",
                            epoch,
                            "batch",
                            1,
                            "messages",
                            LongStream.range(0, 4)
                                    .mapToObj(offset -> List.of(offset, 1, 0, record))
                                    .toList()));
            hosting.register("topics.begin", request -> {
                List<?> offsets = request.get("offsets", List.class);
                begun.add(offsets);
                boolean isNow = request.get("epoch", Long.class) == epoch;
                return Map.of("lane", "x", "epoch", epoch, "begun", isNow ? offsets : List.of());
            });
            hosting.register("topics.acknowledge", request -> {
                int count = request.get("epoch", Long.class) == epoch ? 1 : 0;
                return Map.of("acknowledged", count, "stale", 1 - count, "lane", "x", "epoch", epoch);
            });
        }
    }

    @Test
    void whatWasFetchedBeforeASeekIsNotHandedOut() throws Exception {
        FourMessages host = new FourMessages();
        try (Consumer consumer = billing.topic("orders").consumer("billing")) {
            TopicMessage before = consumer.receive(SOON);
            host.epoch = 2;
            assertEquals(0, consumer.acknowledge(before));
            TopicMessage after = consumer.receive(SOON);
            assertEquals(List.of(0L, 2L), List.of(after.offset(), after.epoch()));
            assertEquals(1, consumer.acknowledge(before, after));
        }
    }

    @Test
    void theHostGetsTheBeginOfEachMessageBeforeTheProgramGetsIt() throws Exception {
        FourMessages host = new FourMessages();
        try (Consumer consumer = billing.topic("orders").consumer("billing")) {
            for (long offset = 0; offset < 4; offset++) {
                assertEquals(offset, consumer.receive(SOON).offset());
                long last = offset;
                assertTrue(offset == 0 || host.begun.stream().anyMatch(one -> one.contains(last)));
            }
        }
    }

    @Test
    void whoHasNoGrantIsRefusedAtOnce() throws IOException {
        try (Node nobody = root.node("nobody", Topic.HOST)) {
            assertThrows(
                    AccessDeniedException.class, () -> nobody.topic("orders").publish(1));
            assertThrows(
                    AccessDeniedException.class, () -> nobody.topic("orders").consumer("billing"));
            assertEquals(Map.of(Topic.HOST, 2L), nobody.stats().get("refusedBy"), "it asked more than once");
        }
    }

    @Test
    void aConsumerThatIsClosedWhileItJoinsAgainHasLeftInTheEnd() throws Exception {
        List<String> requests = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch joinsAgain = new CountDownLatch(1);
        CountDownLatch left = new CountDownLatch(1);
        hosting.register("topics.subscribe", request -> {
            if (!requests.isEmpty()) {
                joinsAgain.countDown();
                left.await();
            }
            requests.add("subscribe");
            return Map.of("lane", "x", "cursor", 0);
        });
        hosting.register("topics.receive", request -> Response.error("NOT_JOINED", "who is this?"));
        hosting.register("topics.leave", request -> {
            requests.add("leave");
            left.countDown();
            return Map.of();
        });
        Consumer consumer = billing.topic("orders").consumer("billing");
        FutureTask<TopicMessage> waits = new FutureTask<>(consumer::receive);
        new Thread(waits, "waits").start();
        joinsAgain.await();
        consumer.close();
        assertNull(waits.get(60, TimeUnit.SECONDS));
        assertEquals(List.of("subscribe", "leave", "subscribe", "leave"), requests);
    }

    @Test
    void anInterruptEndsWhoWaits() throws Exception {
        CountDownLatch polled = new CountDownLatch(1);
        letsConsumersJoin();
        hosting.register("topics.receive", request -> {
            polled.countDown();
            request.cancellation().await(SOON);
            return Map.of("lane", "x", "batch", 0, "messages", List.of());
        });
        try (Consumer consumer = billing.topic("orders").consumer("billing")) {
            FutureTask<Boolean> waits = new FutureTask<>(() -> {
                assertThrows(InterruptedException.class, consumer::receive);
                return true;
            });
            Thread thread = new Thread(waits, "waits");
            thread.start();
            polled.await();
            thread.interrupt();
            assertTrue(waits.get(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void aConsumerThatWasGivenNoNameHasOneOfItsOwnAndLeavesOnce() {
        AtomicInteger left = letsConsumersJoin();
        Topic orders = billing.topic("orders");
        Consumer one = orders.consumer("billing");
        Consumer other = orders.consumer("billing");
        assertNotEquals(one.name(), other.name());
        assertEquals("billing", one.subscription());
        one.close();
        one.close();
        other.close();
        assertEquals(2, left.get());
    }

    @Test
    void whatOutlivesTheNodeSaysThatItIsClosed() throws Exception {
        letsConsumersJoin();
        Topic orders = billing.topic("orders");
        Consumer consumer = orders.consumer("billing");
        billing.close();
        assertThrows(NodeClosedException.class, () -> orders.publish(1));
        assertThrows(NodeClosedException.class, () -> consumer.receive(SOON));
        consumer.close();
        assertNull(consumer.receive(SOON));
    }

    private record Order(long id, double amount) {}

    /** As a host delivers it: nothing is said of it but who published it. */
    private static byte[] record(Object payload) {
        byte[] about = Values.encode(Map.of("publisher", "shop"), "about");
        byte[] packed = Values.encode(payload, "payload");
        return ByteBuffer.allocate(32 + about.length + packed.length)
                .put((byte) 1)
                .putInt(24, about.length)
                .position(32)
                .put(about)
                .put(packed)
                .array();
    }

    @Test
    void thePayloadOfAMessageIsTakenAsAType() throws InterruptedException {
        Map<String, Object> order = Map.of("id", 1, "amount", 20.5);
        hosting.register(
                "topics.read",
                request -> Map.of("lane", "x", "next", 1, "messages", List.of(List.of(0, 0, 0, record(order)))));
        TopicMessage message = billing.topic("orders").reader(Start.LATEST).receive(SOON);
        assertEquals(new Order(1, 20.5), message.payload(Order.class));
        assertEquals(Map.of("id", 1L, "amount", 20.5), message.payload(Map.class));
        assertEquals(
                "BAD_PAYLOAD: the payload must be String, not Map",
                assertThrows(WireException.class, () -> message.payload(String.class))
                        .getMessage());
    }

    @Test
    void deliveriesAreEqualByTheirPlaceAndShowNoPayload() throws InterruptedException {
        Object[] attempts = {1, 1, 2};
        hosting.register(
                "topics.read",
                request -> Map.of(
                        "lane",
                        "x",
                        "next",
                        1,
                        "messages",
                        Stream.of(attempts)
                                .map(attempt -> List.of(7, attempt, 0, record("secret")))
                                .toList()));
        Reader reader = billing.topic("orders").reader(Start.LATEST);
        TopicMessage first = reader.receive(SOON);
        TopicMessage same = reader.receive(SOON);
        TopicMessage again = reader.receive(SOON);
        assertEquals(first, same);
        assertEquals(first.hashCode(), same.hashCode());
        assertNotEquals(first, again);
        assertEquals("TopicMessage orders 7 of shop", first.toString());
    }

    @Test
    void anAnswerOfAnotherShapeIsRefused() {
        hosting.register("topics.publish", request -> Map.of("lane", "x"));
        hosting.register(
                "topics.read", request -> Map.of("lane", "x", "next", 1, "messages", List.of(List.of(1, "often"))));
        assertThrows(WireException.class, () -> billing.topic("orders").publish(1));
        assertThrows(WireException.class, () -> billing.topic("orders").reader(Start.LATEST));
    }
}
