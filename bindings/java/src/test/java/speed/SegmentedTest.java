package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;
import speed.errors.PayloadTooLargeException;
import speed.errors.SegmentStoreException;
import speed.errors.SegmentsLostException;
import speed.options.SegmentLimits;
import speed.options.SendOptions;

/** Payloads that go in segments between two nodes (G-12 to G-20). */
class SegmentedTest extends TwoNodes {
    private static final int SMALL_SEGMENT = 4096;
    private static final SendOptions ACKNOWLEDGED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);

    private final Random random = new Random(1);

    private byte[] randomBytes(int size) {
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }

    private static long count(Node node, String counter) {
        Object value = ((Map<?, ?>) node.stats().get("counters")).get(counter);
        return value == null ? 0 : ((Number) value).longValue();
    }

    /** Waits for a counter, which another thread raises. */
    private static void awaitCount(Node node, String counter) throws InterruptedException {
        long deadline = System.nanoTime() + SOON.toNanos();
        while (count(node, counter) == 0 && System.nanoTime() < deadline) {
            Thread.sleep(5);
        }
        assertTrue(count(node, counter) > 0, counter + " in " + node.stats());
    }

    /** G-18, G-20. */
    @Test
    void aFileBeyondAnEnvelopeIsStreamedAndReadFromTheStore() throws Exception {
        Path file = root.path().resolve("large");
        byte[] block = randomBytes(1 << 20);
        try (var out = Files.newOutputStream(file)) {
            for (int n = 0; n < 70; n++) {
                out.write(block);
            }
        }
        BlockingQueue<String> sums = new LinkedBlockingQueue<>();
        List<LargePayload> handled = new ArrayList<>();
        billing.onMessage(message -> {
            LargePayload payload = assertInstanceOf(LargePayload.class, message.payload());
            handled.add(payload);
            sums.add(payload.size() + " " + sum(payload.open()));
        });
        List<Long> progress = new ArrayList<>();
        analytics.send("billing", file, ACKNOWLEDGED.withProgress((written, total) -> progress.add(written)));
        assertEquals(Files.size(file) + " " + sum(Files.newInputStream(file)), sums.poll(60, TimeUnit.SECONDS));
        assertEquals(progress.stream().sorted().toList(), progress);
        assertTrue(progress.size() >= 17 && progress.get(progress.size() - 1) > Files.size(file), progress.toString());
        assertThrows(SegmentStoreException.class, () -> handled.get(0).readAll(), "read after its handler returned");
    }

    private static String sum(InputStream in) {
        try (in) {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            byte[] part = new byte[1 << 16];
            for (int count = in.read(part); count > 0; count = in.read(part)) {
                digest.update(part, 0, count);
            }
            return Arrays.toString(digest.digest());
        } catch (IOException | NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    /** G-18: those of one segment too. */
    @Test
    void onALinkWithASegmentSizeEverythingIsCut() throws InterruptedException {
        analytics.segment("billing", SMALL_SEGMENT, 0.25);
        billing.segment("analytics", SMALL_SEGMENT, 0);
        billing.register("echo", request -> request.get("data", byte[].class));
        byte[] large = randomBytes(20 * SMALL_SEGMENT + 7);
        assertArrayEquals(large, (byte[]) analytics.call("billing", "echo", Map.of("data", large)));
        analytics.send("billing", "small");
        analytics.send("billing", large);
        assertEquals("small", billing.receive(SOON).payload());
        assertArrayEquals(large, (byte[]) billing.receive(SOON).payload());
        assertEquals(3, count(billing, "payloads_from_segments"));
        assertEquals(1, count(analytics, "payloads_from_segments"));
    }

    @Test
    void aCutMessageIsAcknowledgedOnceItsHandlerReturned() {
        analytics.segment("billing", SMALL_SEGMENT, 0.25);
        List<Integer> handled = new ArrayList<>();
        billing.onMessage(message -> handled.add(((byte[]) message.payload()).length));
        analytics.send("billing", new byte[5 * SMALL_SEGMENT], ACKNOWLEDGED);
        assertEquals(List.of(5 * SMALL_SEGMENT), handled);
    }

    /** G-14: a payload in segments keeps its place among its sender's messages, unless its sender needs no order. */
    @Test
    void whatComesAfterAPayloadInSegmentsIsHandledAfterIt() throws InterruptedException {
        BlockingQueue<Integer> sizes = new LinkedBlockingQueue<>();
        billing.onMessage(message -> sizes.add(
                message.payload() instanceof LargePayload large
                        ? (int) large.size()
                        : ((byte[]) message.payload()).length));
        for (int round = 0; round < 3; round++) {
            analytics.send("billing", new byte[70 << 20], SendOptions.DEFAULT.withTimeout(SOON));
            analytics.send("billing", new byte[1]);
        }
        for (int round = 0; round < 3; round++) {
            assertEquals(70 << 20, sizes.poll(60, TimeUnit.SECONDS));
            assertEquals(1, sizes.poll(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void whatNeedsNoOrderHoldsUpNothingAfterIt() throws InterruptedException {
        CountDownLatch small = new CountDownLatch(1);
        BlockingQueue<Integer> sizes = new LinkedBlockingQueue<>();
        billing.onMessage(message -> {
            int size = ((byte[]) message.payload()).length;
            if (size == 1) {
                small.countDown();
            } else if (await(small)) {
                sizes.add(size);
            }
        });
        analytics.segment("billing", SMALL_SEGMENT, 0);
        analytics.send("billing", new byte[5 * SMALL_SEGMENT], SendOptions.DEFAULT.withoutOrder());
        analytics.send("billing", new byte[1]);
        assertEquals(5 * SMALL_SEGMENT, sizes.poll(60, TimeUnit.SECONDS));
    }

    private static boolean await(CountDownLatch latch) {
        try {
            return latch.await(60, TimeUnit.SECONDS);
        } catch (InterruptedException hurry) {
            return false;
        }
    }

    @Test
    void aCutEventReachesItsSubscribers() throws InterruptedException {
        analytics.segment("billing", 64, 1);
        BlockingQueue<Message> events = new LinkedBlockingQueue<>();
        billing.subscribe("orders.*", events::add);
        assertEquals(1, analytics.publish("orders.created", "x".repeat(300)).count());
        assertEquals("x".repeat(300), events.poll(60, TimeUnit.SECONDS).payload());
    }

    /** G-14: what was taken survives its process. */
    @Test
    void aPayloadIsPutTogetherAcrossARestartOfItsReceiver() throws Exception {
        byte[] payload = randomBytes(70 << 20);
        boolean[] restarted = new boolean[1];
        analytics.send("billing", payload, SendOptions.DEFAULT.withTimeout(SOON).withProgress((written, total) -> {
            if (!restarted[0] && written > total / 2) {
                restarted[0] = true;
                restart();
            }
        }));
        Message message = billing.receive(SOON);
        assertEquals(
                "LargePayload of " + payload.length + " bytes",
                message.payload().toString());
        assertArrayEquals(payload, message.payloadBytes());
        assertTrue(restarted[0]);
    }

    private void restart() {
        Path index = root.path().resolve("billing/segments/index.sqlite");
        while (!Files.exists(index)) {
            Thread.onSpinWait(); // until the receiver has something to lose
        }
        billing.close();
        billing = root.node("billing", "analytics");
    }

    /** G-15, G-19. */
    @Test
    void aPayloadThatNeverBecomesWholeIsReportedToItsSender() throws InterruptedException {
        billing.close();
        billing = limited(new SegmentLimits(
                1 << 30,
                16,
                16,
                1 << 30,
                1 << 30,
                100,
                100,
                Duration.ofMillis(100),
                Duration.ofSeconds(60),
                Duration.ofSeconds(60)));
        analytics.waitFor("billing", SOON);
        assertThrows(
                IllegalStateException.class,
                () -> analytics.send(
                        "billing",
                        new byte[70 << 20],
                        SendOptions.DEFAULT.withTimeout(SOON).withProgress((written, total) -> {
                            throw new IllegalStateException("half way");
                        })));
        awaitCount(analytics, "payloads_reported_lost");
        assertEquals(1, count(billing, "segments_expired"));
    }

    /** G-12, G-19: nothing that exceeds the limit is kept. */
    @Test
    void aPayloadBeyondTheReceiversLimitIsLostAndItsSenderHearsOfIt() throws InterruptedException {
        billing.close();
        billing = limited(new SegmentLimits(
                10_000,
                16,
                16,
                1 << 30,
                1 << 30,
                100,
                100,
                Duration.ofSeconds(60),
                Duration.ofSeconds(60),
                Duration.ofSeconds(60)));
        analytics.waitFor("billing", SOON);
        analytics.segment("billing", SMALL_SEGMENT, 0);
        assertThrows(
                SegmentsLostException.class,
                () -> analytics.send("billing", new byte[5 * SMALL_SEGMENT], ACKNOWLEDGED));
        analytics.send("billing", "the next one is unharmed", ACKNOWLEDGED);
        assertEquals("the next one is unharmed", billing.receive(SOON).payload());
        assertNull(billing.receive(Duration.ofMillis(1)));
    }

    private Node limited(SegmentLimits limits) {
        return Node.builder("billing")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .allow("analytics")
                .segmentLimits(limits)
                .open();
    }

    @Test
    void whatCannotBeSentIsRefusedBeforeAnythingIsWritten() throws IOException {
        assertThrows(ConfigurationException.class, () -> analytics.segment("billing", 63, 0.5));
        assertThrows(ConfigurationException.class, () -> analytics.segment("billing", 64 << 20, 0));
        analytics.segment("billing", 64, 0);
        assertThrows(PayloadTooLargeException.class, () -> analytics.send("billing", new byte[64 * 256]));
        assertThrows(ConfigurationException.class, () -> analytics.send("billing", root.path()));
        assertThrows(ConfigurationException.class, () -> analytics.send("billing", Path.of("/no/such/file")));
        assertFalse(Files.exists(root.path().resolve("billing/segments")));
    }
}
