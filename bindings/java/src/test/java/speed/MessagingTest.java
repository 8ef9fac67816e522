package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.errors.ExecutionFailedException;
import speed.errors.InboxFullException;
import speed.wire.Limits;

/** Messages, events, acknowledgements. */
class MessagingTest extends TwoNodes {
    @Test
    void messagesArriveInOrderWithTheirMetadata() throws InterruptedException {
        for (int n = 0; n < 100; n++) {
            analytics.send("billing", Map.of("n", n), SendOptions.DEFAULT.withTopic("numbers"));
        }
        for (long n = 0; n < 100; n++) {
            Message message = billing.receive(SOON);
            assertEquals(Map.of("n", n), message.payload());
            assertEquals("numbers", message.topic());
            assertEquals("analytics", message.source());
            assertFalse(message.redelivered());
        }
        assertNull(billing.receive(Duration.ofMillis(1)));
    }

    @Test
    void anAcknowledgementComesAfterTheHandlerReturned() {
        List<Object> handled = new ArrayList<>();
        billing.onMessage(message -> handled.add(message.payload()));
        analytics.send("billing", "one", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("one"), handled);
    }

    @Test
    void aFailingHandlerIsReportedToWhoAskedForAnAcknowledgement() {
        billing.onMessage(message -> {
            throw new IllegalStateException("no luck");
        });
        assertThrows(ExecutionFailedException.class, () -> analytics.send(
                "billing", "one", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON)));
    }

    @Test
    void anEventReachesThoseThatSubscribed() throws InterruptedException {
        BlockingQueue<Message> events = new LinkedBlockingQueue<>();
        billing.subscribe("orders.*", events::add);
        assertEquals(1, analytics.publish("orders.created", List.of(1, 2)));
        assertEquals(0, analytics.publish("other", 1));
        assertEquals(List.of(1L, 2L), events.poll(20, TimeUnit.SECONDS).payload());
    }

    private long heldBytes() {
        Object received = ((Map<?, ?>) billing.stats().get("counters")).get("messages_received");
        return received == null ? 0 : ((Number) received).longValue() << 20;
    }

    /** L-19: whatever a sender makes of L-6; the others are served meanwhile, and nothing is lost. */
    @Test
    void whatAProgramDoesNotTakeFillsABoundedPartOfItsMemory() throws InterruptedException {
        try (Node sender = Node.builder("sender").root(root.path()).key(root.path().resolve("speed.key"))
                .laneBytes(1 << 30).open()) {
            billing.allow("sender");
            for (int n = 0; n < 300; n++) {
                sender.send("billing", new byte[(1 << 20) + n]);
            }
            long until = System.nanoTime() + SOON.toNanos();
            while (heldBytes() < Limits.MAX_UNFINISHED_BYTES && System.nanoTime() < until) {
                analytics.ping("billing");
            }
            until = System.nanoTime() + (long) (2e9 * Limits.FULL_SCAN_SECONDS);
            while (System.nanoTime() < until) {
                analytics.ping("billing");
            }
            long held = heldBytes();
            assertTrue(held >= Limits.MAX_UNFINISHED_BYTES, () -> held + " bytes");
            assertTrue(held <= Limits.MAX_UNFINISHED_BYTES + (8 << 20), () -> held + " bytes");
            for (int n = 0; n < 300; n++) {
                assertEquals((1 << 20) + n, ((byte[]) billing.receive(SOON).payload()).length);
            }
        }
    }

    @Test
    void aFullInboxIsReportedAfterTheTimeout() throws IOException {
        try (Node sender = Node.builder("sender").root(root.path()).key(root.path().resolve("speed.key"))
                .laneBytes(2000).open()) {
            billing.allow("sender");
            SendOptions brief = SendOptions.DEFAULT.withTimeout(Duration.ofMillis(50));
            assertThrows(InboxFullException.class, () -> {
                for (int n = 0; n < 10; n++) {
                    sender.send("billing", new byte[500], brief);
                }
            });
        }
    }
}
