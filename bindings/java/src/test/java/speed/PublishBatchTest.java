package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import speed.errors.BatchException;
import speed.errors.InvalidNameException;
import speed.errors.MessageException;
import speed.errors.NodeClosedException;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.message.Algorithm;
import speed.message.KeyBounds;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SignaturePolicy;
import speed.options.SendOptions;

/** M-30: many payloads in one event or message, between nodes. */
class PublishBatchTest extends TwoNodes {
    private record Order(int id, double amount) {}

    private final BlockingQueue<Message> got = new LinkedBlockingQueue<>();

    @BeforeEach
    void subscribe() {
        billing.subscribe("orders.*", got::add);
    }

    private Message next() throws InterruptedException {
        return got.poll(60, TimeUnit.SECONDS);
    }

    @Test
    void manyPayloadsAreOneEvent() throws InterruptedException {
        assertEquals(
                List.of("billing"),
                analytics
                        .publishBatch("orders.made", Arrays.asList(1, "two", null))
                        .delivered());
        Message event = next();
        assertEquals("application/x-speed-batch", event.contentType());
        assertEquals(Arrays.asList(1L, "two", null), event.payloads());
        assertTrue(got.isEmpty());
    }

    @Test
    void aBatchForOneNodeIsOneMessageWithOneAcknowledgement() throws InterruptedException {
        billing.onMessage(got::add);
        String id = analytics.sendBatch(
                "billing",
                List.of(1, 2),
                SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        Message message = next();
        assertEquals(id, message.messageId());
        assertEquals(List.of(1L, 2L), message.payloads());
    }

    @Test
    void aMessageThatIsNoBatchHasOnePayload() throws InterruptedException {
        analytics.publish("orders.made", List.of(1, 2));
        assertEquals(List.of(List.of(1L, 2L)), next().payloads());
        analytics.publish("orders.made", null);
        assertEquals(Collections.singletonList(null), next().payloads());
    }

    @Test
    void aBatchOfNothingHasNoPayloads() throws InterruptedException {
        analytics.publishBatch("orders.made", List.of());
        assertEquals(List.of(), next().payloads());
    }

    @Test
    void payloadsAreTakenAsAType() throws InterruptedException {
        List<Order> orders = List.of(new Order(1, 2.5), new Order(2, 5));
        analytics.publishBatch("orders.made", orders);
        Message event = next();
        assertEquals(orders, event.payloads(Order.class));
        assertEquals(
                "BAD_MESSAGE: payloads[0] must be String, not Map",
                assertThrows(WireException.class, () -> event.payloads(String.class))
                        .getMessage());
    }

    @Test
    void payloadsCannotBeChangedByWhoReadsThem() throws InterruptedException {
        analytics.publishBatch("orders.made", List.of(1));
        Message event = next();
        assertThrows(UnsupportedOperationException.class, () -> event.payloads().add(2));
        assertThrows(
                UnsupportedOperationException.class,
                () -> event.payloads(Long.class).add(2L));
    }

    @Test
    void theOptionsOfABatchAreThoseOfAnEvent() throws InterruptedException {
        analytics.publishBatch(
                "orders.made", List.of(1), SendOptions.DEFAULT.withPriority(9).withCorrelationId("c"));
        Message event = next();
        assertEquals(9, event.priority());
        assertEquals("c", event.correlationId());
    }

    @Test
    void payloadsForSeveralTopicsAreOneEventOfEachInTheOrderOfTheirFirst() throws InterruptedException {
        Map<String, Published> published = analytics.publishBatch(List.of(
                Map.entry("orders.paid", 1),
                Map.entry("orders.made", 2),
                Map.entry("stock.low", 3),
                Map.entry("orders.paid", 4)));
        assertEquals(List.of("orders.paid", "orders.made", "stock.low"), List.copyOf(published.keySet()));
        assertEquals(
                List.of(1, 1, 0),
                published.values().stream().map(Published::count).toList());
        Message paid = next();
        assertEquals("orders.paid", paid.topic());
        assertEquals(List.of(1L, 4L), paid.payloads());
        Message made = next();
        assertEquals("orders.made", made.topic());
        assertEquals(List.of(2L), made.payloads());
    }

    @Test
    void noPairsArePublishedAsNothing() {
        assertEquals(Map.of(), analytics.publishBatch(List.of()));
    }

    @Test
    void whatCannotBeEncodedKeepsAllBack() throws InterruptedException {
        Map.Entry<String, Object> sound = Map.entry("orders.made", 1);
        assertThrows(
                UnserialisableException.class,
                () -> analytics.publishBatch(List.of(sound, Map.entry("orders.paid", new Object()))));
        assertThrows(InvalidNameException.class, () -> analytics.publishBatch(List.of(sound, Map.entry("a..b", 1))));
        assertThrows(
                BatchException.class,
                () -> analytics.publishBatch("orders.made", Collections.nCopies((1 << 16) + 1, 1)));
        analytics.publish("orders.made", "behind them");
        assertEquals("behind them", next().payload());
    }

    @Test
    void whatCannotBeProtectedKeepsAllBack() throws InterruptedException {
        MessageKey key = MessageKey.generate("made-only", Algorithm.ED25519)
                .withBounds(KeyBounds.NONE.withTopics("orders.made"));
        SendOptions signed = SendOptions.DEFAULT.withProtection(Protection.NONE.signWith(key));
        assertThrows(
                MessageException.class,
                () -> analytics.publishBatch(
                        List.of(Map.entry("orders.made", 1), Map.entry("orders.paid", 2)), signed));
        analytics.publish("orders.made", "behind them");
        assertEquals("behind them", next().payload());
    }

    @Test
    void theLongestWaitIsForAllTopicsTogether() throws InterruptedException {
        CountDownLatch released = new CountDownLatch(1);
        analytics.subscribe("full.*", event -> {
            try {
                released.await(50, TimeUnit.SECONDS);
            } catch (InterruptedException hurry) {
                Thread.currentThread().interrupt();
            }
        });
        analytics.allow("publisher");
        byte[] large = new byte[2_000];
        try (Node publisher = root.builder("publisher").maxLaneBytes(3_000).open()) {
            publisher.publish("full.one", large);
            List<Map.Entry<String, byte[]>> pairs = new ArrayList<>();
            for (int topic = 0; topic < 10; topic++) {
                pairs.add(Map.entry("full.topic" + topic, large));
            }
            long began = System.nanoTime();
            Map<String, Published> published =
                    publisher.publishBatch(pairs, SendOptions.DEFAULT.withTimeout(Duration.ofSeconds(1)));
            Duration took = Duration.ofNanos(System.nanoTime() - began);
            published.values().forEach(one -> assertEquals(Map.of("analytics", "INBOX_FULL"), one.failed()));
            assertTrue(took.compareTo(Duration.ofSeconds(pairs.size())) < 0, took.toString());
            released.countDown();
        }
    }

    @Test
    void aBatchIsSignedEncryptedAndCompressedAsAnyMessage() throws InterruptedException {
        MessageKey signer = MessageKey.generate("analytics-1", Algorithm.ED25519)
                .withBounds(KeyBounds.NONE.withPublishers("analytics"));
        MessageKey reader = MessageKey.generate("reader-1", Algorithm.X25519);
        SendOptions both = SendOptions.DEFAULT.withProtection(
                Protection.NONE.encryptTo(reader.publicPart()).signWith(signer).compressed("gzip"));
        MessageSecurity security =
                MessageSecurity.NONE.withKeys(reader).withPolicy(SignaturePolicy.REQUIRE, signer.publicPart());
        BlockingQueue<Message> opened = new LinkedBlockingQueue<>();
        try (Node secured =
                root.builder("secured", "analytics").security(security).open()) {
            secured.subscribe("orders.*", opened::add);
            assertEquals(
                    2,
                    analytics
                            .publishBatch("orders.made", List.of("one", "two"), both)
                            .count());
            analytics.publishBatch(List.of(Map.entry("orders.paid", 3)), both);
            Message event = opened.poll(60, TimeUnit.SECONDS);
            assertEquals(List.of("one", "two"), event.payloads());
            assertEquals("analytics-1", event.signedBy());
            assertEquals("reader-1", event.openedBy());
            assertEquals(List.of(3L), opened.poll(60, TimeUnit.SECONDS).payloads());
        }
        assertThrows(WireException.class, next()::payloads);
    }

    /** What no envelope holds goes in segments, as any event. */
    @Test
    void aLargeBatchArrivesWhole() throws InterruptedException {
        byte[] part = new byte[33 << 20];
        part[part.length - 1] = 7;
        BlockingQueue<List<Object>> read = new LinkedBlockingQueue<>();
        billing.subscribe("large.*", event -> read.add(event.payloads()));
        analytics.publishBatch("large.made", List.of(part, part), SendOptions.DEFAULT.withTimeout(SOON));
        List<Object> payloads = read.poll(60, TimeUnit.SECONDS);
        assertEquals(2, payloads.size());
        payloads.forEach(payload -> assertTrue(Arrays.equals(part, (byte[]) payload)));
    }

    @Test
    void aClosedNodePublishesNoBatch() {
        analytics.close();
        assertThrows(NodeClosedException.class, () -> analytics.publishBatch("orders.made", List.of(1)));
        assertThrows(NodeClosedException.class, () -> analytics.publishBatch(List.of(Map.entry("orders.made", 1))));
    }
}
