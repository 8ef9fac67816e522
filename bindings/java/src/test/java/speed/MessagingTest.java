package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

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
