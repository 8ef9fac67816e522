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
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.ConfigurationException;
import speed.errors.NodeClosedException;
import speed.errors.UnknownNodeException;
import speed.errors.WireException;
import speed.tool.BenchRoot;
import speed.wire.Values;

/** Clients of durable topics beside what is published of their conversations. */
@Timeout(60)
class TopicsTest {
    private static final Duration SOON = Duration.ofSeconds(20);

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
            return Map.of("lane", "x", "offsets", Collections.nCopies(count, 7));
        });
        List<Integer> payloads = Collections.nCopies(1001, 1);
        assertEquals(1001, billing.topic("orders").publishBatch(payloads, PublishBatchOptions.DEFAULT).size());
        assertEquals(List.of(1000, 1), writes);
    }

    @Test
    void oneWriteHoldsFourMebibytes() {
        List<Integer> writes = Collections.synchronizedList(new ArrayList<>());
        hosting.register("topics.publish", request -> {
            writes.add(request.get("messages", List.class).size());
            return Map.of("lane", "x", "offsets", List.of(7));
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
            return Map.of("lane", "x", "offsets", List.of(0));
        });
        PublishOptions atATime = PublishOptions.DEFAULT.withTime(Instant.EPOCH);
        assertNull(atATime.withDelay(SOON).at());
        long before = System.currentTimeMillis();
        billing.topic("orders").publish(1, atATime.withDelay(Duration.ofMinutes(1)));
        assertTrue(due.join() >= before + 60_000);
    }

    @Test
    void whatCannotBeMeantIsRefusedBeforeTheHostIsAsked() {
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
        assertThrows(UnknownNodeException.class, () -> billing.topic("orders", "absent").consumer("billing", shortly));
    }

    @Test
    void closingEndsWhoWaits() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch left = new CountDownLatch(1);
        hosting.register("topics.subscribe", request -> Map.of("lane", "x", "cursor", 0));
        hosting.register("topics.receive", request -> {
            asked.countDown();
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
        asked.await();
        consumer.close();
        assertNull(waits.get(20, TimeUnit.SECONDS));
    }

    @Test
    void aConsumerThatIsClosedWhileItJoinsAgainHasLeftInTheEnd() throws Exception {
        List<String> asked = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch joinsAgain = new CountDownLatch(1);
        CountDownLatch left = new CountDownLatch(1);
        hosting.register("topics.subscribe", request -> {
            if (!asked.isEmpty()) {
                joinsAgain.countDown();
                left.await();
            }
            asked.add("subscribe");
            return Map.of("lane", "x", "cursor", 0);
        });
        hosting.register("topics.receive", request -> Response.error("NOT_JOINED", "who is this?"));
        hosting.register("topics.leave", request -> {
            asked.add("leave");
            left.countDown();
            return Map.of();
        });
        Consumer consumer = billing.topic("orders").consumer("billing");
        FutureTask<TopicMessage> waits = new FutureTask<>(consumer::receive);
        new Thread(waits, "waits").start();
        joinsAgain.await();
        consumer.close();
        assertNull(waits.get(20, TimeUnit.SECONDS));
        assertEquals(List.of("subscribe", "leave", "subscribe", "leave"), asked);
    }

    @Test
    void anInterruptEndsWhoWaits() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        letsConsumersJoin();
        hosting.register("topics.receive", request -> {
            asked.countDown();
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
            asked.await();
            thread.interrupt();
            assertTrue(waits.get(20, TimeUnit.SECONDS));
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
        return ByteBuffer.allocate(32 + about.length + packed.length).put((byte) 1).putInt(24, about.length)
                .position(32).put(about).put(packed).array();
    }

    @Test
    void thePayloadOfAMessageIsTakenAsAType() throws InterruptedException {
        Map<String, Object> order = Map.of("id", 1, "amount", 20.5);
        hosting.register("topics.read",
                request -> Map.of("lane", "x", "next", 1, "messages", List.of(List.of(0, 0, 0, record(order)))));
        TopicMessage message = billing.topic("orders").reader(Start.LATEST).receive(SOON);
        assertEquals(new Order(1, 20.5), message.payload(Order.class));
        assertEquals(Map.of("id", 1L, "amount", 20.5), message.payload(Map.class));
        assertEquals("BAD_PAYLOAD: the payload must be String, not Map",
                assertThrows(WireException.class, () -> message.payload(String.class)).getMessage());
    }

    @Test
    void anAnswerOfAnotherShapeIsTold() {
        hosting.register("topics.publish", request -> Map.of("lane", "x"));
        hosting.register("topics.read", request -> Map.of("lane", "x", "next", 1, "messages", List.of(List.of(1, "often"))));
        assertThrows(WireException.class, () -> billing.topic("orders").publish(1));
        assertThrows(WireException.class, () -> billing.topic("orders").reader(Start.LATEST));
    }
}
