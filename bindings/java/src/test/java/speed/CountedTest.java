package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import speed.errors.AccessDeniedException;
import speed.errors.CallTimeoutException;
import speed.options.SendOptions;
import speed.options.ServiceOptions;

/** S-14: what a node counts of its handlers, its services and its peers. */
class CountedTest extends TwoNodes {
    private static final SendOptions ACKNOWLEDGED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);

    private static Map<?, ?> rows(Node node, String kind) {
        return (Map<?, ?>) node.stats().get(kind);
    }

    private static Object told(Node node, String kind, String name, String column) {
        return rows(node, kind).get(name) instanceof Map<?, ?> row ? row.get(column) : null;
    }

    private static long sum(Object counts) {
        return ((List<?>) counts).stream().mapToLong(count -> (Long) count).sum();
    }

    private static void eventually(BooleanSupplier holds) {
        long until = System.nanoTime() + SOON.toNanos();
        while (!holds.getAsBoolean()) {
            assertTrue(System.nanoTime() < until, "it never held");
            Thread.yield();
        }
    }

    private void eventually(long number, Node node, String kind, String name, String column) {
        eventually(() -> Long.valueOf(number).equals(told(node, kind, name, column)));
    }

    @Test
    void handlersOfMessagesAreCountedWithTheirTimes() {
        CountDownLatch never = new CountDownLatch(1);
        billing.onMessage(message -> {
            try {
                never.await(10, TimeUnit.MILLISECONDS);
            } catch (InterruptedException hurry) {
                throw new IllegalStateException(hurry);
            }
        });
        for (int message = 0; message < 3; message++) {
            analytics.send("billing", message, ACKNOWLEDGED);
        }
        eventually(3, billing, "handlers", "(messages)", "numHandled");
        assertEquals(0L, told(billing, "handlers", "(messages)", "numErrors"));
        assertEquals(3, sum(told(billing, "handlers", "(messages)", "runTimes")));
        assertEquals(3, sum(told(billing, "handlers", "(messages)", "queueTimes")));
        assertTrue((double) told(billing, "handlers", "(messages)", "processingSeconds") >= 0.03);
    }

    @Test
    void handlersOfEventsAreCountedByTheirPattern() {
        billing.subscribe("orders.*", message -> {});
        billing.subscribe("orders.new", message -> {});
        analytics.publish("orders.new", 1);
        eventually(1, billing, "handlers", "orders.new", "numHandled");
        assertEquals(Set.of("orders.*", "orders.new"), rows(billing, "handlers").keySet());
        assertEquals(1L, told(billing, "handlers", "orders.*", "numHandled"));
    }

    @Test
    void handlersOfBatchesAreCountedByBatch() {
        billing.onBatch(messages -> Map.of());
        analytics.send("billing", 1, ACKNOWLEDGED);
        eventually(1, billing, "handlers", "(batches)", "numHandled");
    }

    @Test
    void attemptsThatFailAreErrorsAndOnlyTheFirstOneWaited() {
        CountDownLatch failures = new CountDownLatch(2);
        billing.onBatch(messages -> {
            failures.countDown();
            if (failures.getCount() > 0) {
                throw new IllegalStateException("not yet");
            }
            return Map.of();
        });
        analytics.send("billing", 1, ACKNOWLEDGED);
        eventually(2, billing, "handlers", "(batches)", "numHandled");
        assertEquals(1L, told(billing, "handlers", "(batches)", "numErrors"));
        assertEquals(2, sum(told(billing, "handlers", "(batches)", "runTimes")));
        assertEquals(1, sum(told(billing, "handlers", "(batches)", "queueTimes")));
    }

    @Test
    void patternsBeyondTheBoundAreCountedTogether() {
        for (int number = 0; number < 70; number++) {
            billing.subscribe("orders." + number, message -> {});
        }
        for (int number = 0; number < 70; number++) {
            analytics.publish("orders." + number, number);
        }
        eventually(6, billing, "handlers", "*", "numHandled");
        assertEquals(65, rows(billing, "handlers").size());
    }

    @Test
    void envelopesAndBytesAreCountedByPeerAtBothEnds() {
        billing.register("size", request -> request.get("data", byte[].class).length);
        analytics.call("billing", "size", Map.of("data", new byte[1000]));
        assertEquals(1L, told(analytics, "peers", "billing", "sent"));
        assertEquals(1L, told(billing, "peers", "analytics", "received"));
        Object bytes = told(analytics, "peers", "billing", "sentBytes");
        assertTrue((long) bytes >= 1000);
        assertEquals(bytes, told(billing, "peers", "analytics", "receivedBytes"));
        eventually(1, analytics, "peers", "billing", "received");
        eventually(1, billing, "peers", "analytics", "sent");
        assertEquals(
                told(billing, "peers", "analytics", "sentBytes"), told(analytics, "peers", "billing", "receivedBytes"));
    }

    @Test
    void whoHasNoGrantIsNoPeer() {
        try (Node stranger = root.node("stranger")) {
            assertThrows(AccessDeniedException.class, () -> stranger.call("billing", "size", Map.of()));
        }
        assertFalse(rows(billing, "peers").containsKey("stranger"));
    }

    @Test
    void callsThatTimeOutInTheQueueAreToldApart() throws Exception {
        CountDownLatch goOn = new CountDownLatch(1);
        CountDownLatch begun = new CountDownLatch(1);
        try (Node single = root.builder("single", "analytics").workers(1).open()) {
            single.register("wait", request -> {
                begun.countDown();
                return goOn.await(SOON.toSeconds(), TimeUnit.SECONDS);
            });
            CompletableFuture<Object> running = analytics.submit("single", "wait", Map.of(), SOON);
            assertTrue(begun.await(SOON.toSeconds(), TimeUnit.SECONDS));
            assertThrows(
                    CallTimeoutException.class,
                    () -> analytics.call("single", "wait", Map.of(), Duration.ofMillis(200)));
            eventually(1, single, "services", "wait", "numTimedOutQueued");
            goOn.countDown();
            assertEquals(true, running.get(SOON.toSeconds(), TimeUnit.SECONDS));
            assertEquals(1L, told(single, "services", "wait", "numTimedOut"));
        }
    }

    @Test
    void callsThatAreWithdrawnAreCountedByService() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        billing.register("wait", request -> {
            begun.countDown();
            return request.cancellation().await(SOON);
        });
        CompletableFuture<Object> call = analytics.submit("billing", "wait", Map.of(), SOON);
        assertTrue(begun.await(SOON.toSeconds(), TimeUnit.SECONDS));
        call.cancel(true);
        eventually(1, billing, "services", "wait", "numWithdrawn");
    }

    @Test
    void callsThatAServiceRefusesAreCountedByIt() {
        billing.register("secret", request -> 1, ServiceOptions.DEFAULT.withAllow("billing"));
        assertThrows(AccessDeniedException.class, () -> call("secret"));
        assertEquals(1L, told(billing, "services", "secret", "numRefused"));
        assertEquals(0L, told(billing, "services", "secret", "numRequests"));
    }

    @Test
    void descriptorsOfTheProcessAreTold() {
        Map<String, Object> stats = billing.stats();
        assertTrue((long) stats.get("openFiles") > 3);
        assertTrue((long) stats.get("openFiles") <= (long) stats.get("maxOpenFiles"));
    }
}
