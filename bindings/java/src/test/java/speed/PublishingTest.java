package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;
import speed.options.SendOptions;

/** An event reaches all who have room first, and then the others, within one bound. */
class PublishingTest extends TwoNodes {
    private static final byte[] LARGE = new byte[2_000];

    private final CountDownLatch released = new CountDownLatch(1);
    private final BlockingQueue<Message> got = new LinkedBlockingQueue<>();
    private Node publisher;

    /** The handler of analytics hangs, so that its lane is full with one event; billing takes all. */
    @BeforeEach
    void fillOneLane() throws InterruptedException {
        publisher = root.builder("publisher").maxLaneBytes(3_000).open();
        billing.allow("publisher");
        analytics.allow("publisher");
        billing.subscribe("orders.*", got::add);
        billing.onMessage(message -> {}); // one that is acknowledged shows that the event before it is committed
        analytics.subscribe("orders.*", event -> {
            try {
                released.await(50, TimeUnit.SECONDS);
            } catch (InterruptedException hurry) {
                Thread.currentThread().interrupt();
            }
        });
        Published first = publisher.publish("orders.new", LARGE);
        assertEquals(List.of("analytics", "billing"), first.delivered());
        assertNotNull(got.poll(60, TimeUnit.SECONDS));
        publisher.send(
                "billing",
                "behind it",
                SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
    }

    @AfterEach
    void release() {
        released.countDown();
        publisher.close();
    }

    @Test
    void whoHasNoRoomHoldsUpNoOther() throws Exception {
        FutureTask<Published> publishing = new FutureTask<>(
                () -> publisher.publish("orders.new", LARGE, SendOptions.DEFAULT.withTimeout(Duration.ofSeconds(50))));
        Thread thread = new Thread(publishing, "publishing");
        thread.setDaemon(true);
        thread.start();
        assertNotNull(got.poll(60, TimeUnit.SECONDS), "billing waits for analytics");
        assertFalse(publishing.isDone());
        released.countDown();
        assertEquals(
                List.of("analytics", "billing"),
                publishing.get(60, TimeUnit.SECONDS).delivered());
    }

    @Test
    void whoHasNoRoomInTimeIsReported() throws InterruptedException {
        Published published =
                publisher.publish("orders.new", LARGE, SendOptions.DEFAULT.withTimeout(Duration.ofMillis(50)));
        assertEquals(new Published(List.of("billing"), Map.of("analytics", "INBOX_FULL")), published);
        assertNotNull(got.poll(60, TimeUnit.SECONDS));
    }

    @Test
    void whoHasNoRoomIsLeftOutAtOnceWhereThePublisherWantsThat() {
        Published published = publisher.publish(
                "orders.new",
                LARGE,
                SendOptions.DEFAULT.withTimeout(Duration.ofHours(1)).withDropIfFull());
        assertEquals(new Published(List.of("billing"), Map.of("analytics", "INBOX_FULL")), published);
    }

    @Test
    void anEventThatAFamilySharesGoesToOneOfItInTurn() {
        try (Node first = root.node("worker.1");
                Node second = root.node("worker.2");
                Node third = root.node("worker.3")) {
            for (Node worker : List.of(first, second, third)) {
                worker.subscribeShared("invoices.*", event -> {});
            }
            first.allow("publisher");
            second.allow("publisher");
            List<Published> published = Stream.generate(() -> publisher.publish("invoices.new", 1))
                    .limit(4)
                    .toList();
            assertEquals(
                    List.of("worker.1", "worker.2", "worker.1", "worker.2"),
                    published.stream().flatMap(one -> one.delivered().stream()).toList());
            assertEquals(Map.of(), published.get(0).failed());
        }
    }

    @Test
    void onePatternIsSharedOrNot() {
        billing.subscribeShared("invoices.*", event -> {});
        assertThrows(ConfigurationException.class, () -> billing.subscribe("invoices.*", event -> {}));
    }

    @Test
    void aSubscriberThatDoesNotAllowThePublisherIsReported() {
        try (Node other = root.node("other")) {
            other.subscribe("invoices.*", event -> {});
            assertEquals(
                    new Published(List.of(), Map.of("other", "ACCESS_DENIED")), publisher.publish("invoices.new", 1));
        }
    }
}
