package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.errors.ExecutionFailedException;
import speed.errors.InboxFullException;
import speed.errors.InvalidArgumentsException;
import speed.internal.wire.Limits;
import speed.options.SendOptions;

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
    void aMessageOfANamespaceThatIsNotTakenIsRefused() throws Exception {
        BlockingQueue<Object> heard = new LinkedBlockingQueue<>();
        try (Node acme = root.builder("acme").namespace("acme").open();
                Node other =
                        root.builder("other", "acme").acceptNamespaces("acme").open()) {
            billing.allow("acme");
            billing.onMessage(message -> heard.add("of another namespace"));
            other.onMessage(message -> heard.add(message.payload()));
            Exception refused = assertThrows(
                    InvalidArgumentsException.class,
                    () -> acme.send(
                            "billing",
                            1L,
                            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON)));
            assertTrue(refused.getMessage().contains("OTHER_NAMESPACE"), refused.getMessage());
            acme.send("other", 2L, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
            assertEquals(2L, heard.poll(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void theMetadataThatASenderGivesArrives() throws InterruptedException {
        String id = UUID.randomUUID().toString();
        analytics.send(
                "billing",
                1,
                SendOptions.DEFAULT
                        .withPriority(9)
                        .withTtl(Duration.ofHours(1))
                        .withCorrelationId("c")
                        .withCausalityParent(id)
                        .withLabels(Map.of("region", "eu"))
                        .withBaggage(Map.of("tenant", "a"))
                        .withExtensions(Map.of("x-note", new byte[] {1})));
        Message message = billing.receive(SOON);
        assertEquals(9, message.priority());
        assertEquals(Duration.ofHours(1), message.timeToLive());
        assertTrue(Duration.between(message.publishedAt(), Instant.now()).compareTo(Duration.ofHours(1)) < 0);
        assertEquals("c", message.correlationId());
        assertEquals(id, message.causalityParent());
        assertEquals(Map.of("region", "eu"), message.labels());
        assertEquals(Map.of("tenant", "a"), message.baggage());
        assertArrayEquals(new byte[] {1}, message.extensions().get("x-note"));
        assertEquals("default", message.namespace());
        assertEquals("", message.publisherTeam());
    }

    @Test
    void anAcknowledgementComesAfterTheHandlerReturned() {
        List<Object> handled = new ArrayList<>();
        billing.onMessage(message -> handled.add(message.payload()));
        analytics.send(
                "billing", "one", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("one"), handled);
    }

    @Test
    void whatExpiresWhileAHandlerIsBusyIsNotHandledAndItsSenderIsNotified() throws InterruptedException {
        BlockingQueue<Object> handled = new LinkedBlockingQueue<>();
        CountDownLatch goesOn = new CountDownLatch(1);
        billing.onMessage(message -> {
            handled.add(message.payload());
            assertDoesNotThrow(() -> goesOn.await(60, TimeUnit.SECONDS));
        });
        analytics.send("billing", "first");
        assertEquals("first", handled.poll(60, TimeUnit.SECONDS));
        Thread releasing = new Thread(() -> {
            try {
                assertFalse(new CountDownLatch(1).await(1200, TimeUnit.MILLISECONDS)); // its second is over
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
            goesOn.countDown();
        });
        releasing.start();
        assertThrows(
                ExecutionFailedException.class,
                () -> analytics.send(
                        "billing",
                        "late",
                        SendOptions.DEFAULT
                                .withTtl(Duration.ofSeconds(1))
                                .withAcknowledgement()
                                .withTimeout(SOON)));
        releasing.join();
        analytics.send(
                "billing", "last", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("last"), List.copyOf(handled));
    }

    @Test
    void aFailingHandlerIsReportedToWhoRequestedAnAcknowledgement() {
        billing.onMessage(message -> {
            throw new IllegalStateException("no luck");
        });
        assertThrows(
                ExecutionFailedException.class,
                () -> analytics.send(
                        "billing",
                        "one",
                        SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON)));
    }

    /** S-11, S-5: whatever the failure says, its sender is told, and the next message is handled. */
    @Test
    void aFailureWhoseTextNoEncodingCarriesIsReportedAndHoldsUpNoMessage() {
        SendOptions acknowledged = SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);
        billing.onMessage(message -> {
            if (message.payload() instanceof String text) {
                throw new IllegalStateException(text.equals("lone") ? "\uD800" : "x" + "\uD83D\uDE00".repeat(2000));
            }
        });
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "lone", acknowledged));
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "pairs", acknowledged));
        analytics.send("billing", 1, acknowledged);
    }

    /** S-5: even a failure that cannot be told about. */
    @Test
    void aFailureThatFailsToSayWhyHoldsUpNoMessage() {
        billing.onMessage(message -> {
            if (message.payload() == null) {
                throw new Unspeakable();
            }
        });
        analytics.send("billing", null);
        analytics.send("billing", 1, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
    }

    private static final class Unspeakable extends RuntimeException {
        private static final long serialVersionUID = 1;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no text");
        }
    }

    @Test
    void anEventReachesThoseThatSubscribed() throws InterruptedException {
        BlockingQueue<Message> events = new LinkedBlockingQueue<>();
        billing.subscribe("orders.*", events::add);
        assertEquals(1, analytics.publish("orders.created", List.of(1, 2)).count());
        assertEquals(0, analytics.publish("other", 1).count());
        assertEquals(List.of(1L, 2L), events.poll(60, TimeUnit.SECONDS).payload());
    }

    /** M-33. */
    @Test
    void receiveGivesTheMoreUrgentSenderFirstAndKeepsTheOrderOfEach() throws InterruptedException {
        SendOptions calm =
                SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON).withPriority(2);
        try (Node urgent = root.node("urgent")) {
            billing.allow("urgent");
            for (long n = 0; n < 2; n++) {
                analytics.send("billing", n, calm);
            }
            for (long n = 2; n < 4; n++) {
                urgent.send("billing", n, calm.withPriority(9));
            }
            for (long expected : new long[] {2, 3, 0, 1}) {
                assertEquals(expected, billing.receive(SOON).payload());
            }
        }
    }

    /** M-33. */
    @Test
    void aBusyWorkerTakesTheMoreUrgentSenderNext() throws InterruptedException {
        BlockingQueue<String> handled = new LinkedBlockingQueue<>();
        CountDownLatch entered = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        try (Node busy = Node.builder("busy")
                        .root(root.path())
                        .key(root.path().resolve("speed.key"))
                        .workers(1)
                        .allow("analytics", "calm", "urgent")
                        .open();
                Node calm = root.node("calm");
                Node urgent = root.node("urgent")) {
            busy.onMessage(message -> {
                handled.add(message.source());
                entered.countDown();
                assertDoesNotThrow(() -> goOn.await(60, TimeUnit.SECONDS));
            });
            analytics.send("busy", 1);
            assertTrue(entered.await(60, TimeUnit.SECONDS));
            analytics.send("busy", 2);
            calm.send("busy", 3, SendOptions.DEFAULT.withPriority(6));
            urgent.send("busy", 4, SendOptions.DEFAULT.withPriority(9));
            long until = System.nanoTime() + SOON.toNanos();
            while (received(busy) < 4 && System.nanoTime() < until) {
                Thread.onSpinWait();
            }
            goOn.countDown();
            for (String expected : List.of("analytics", "urgent", "calm", "analytics")) {
                assertEquals(expected, handled.poll(60, TimeUnit.SECONDS));
            }
        }
    }

    private static long received(Node node) {
        Object received = ((Map<?, ?>) node.stats().get("counters")).get("messages_received");
        return received == null ? 0 : ((Number) received).longValue();
    }

    private long heldBytes() {
        return received(billing) << 20;
    }

    /** L-19: whatever a sender makes of L-6; the others are served meanwhile, and nothing is lost. */
    @Test
    void whatAProgramDoesNotTakeFillsABoundedPartOfItsMemory() throws InterruptedException {
        try (Node sender = Node.builder("sender")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .maxLaneBytes(1 << 30)
                .open()) {
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
        try (Node sender = Node.builder("sender")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .maxLaneBytes(2000)
                .open()) {
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
