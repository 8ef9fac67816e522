package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import speed.errors.NodeClosedException;
import speed.options.SendOptions;

/** T-3 to T-6: nobody starves, and nobody waits for himself. */
class FairnessTest extends TwoNodes {
    private final CountDownLatch released = new CountDownLatch(1);

    @Test
    void aCallOfOneDoesNotWaitForTheThousandsOfAnother() throws Exception {
        AtomicInteger served = new AtomicInteger();
        CountDownLatch entered = new CountDownLatch(1);
        try (Node one = root.builder("one", "analytics", "billing").workers(1).open()) {
            one.register("work", request -> {
                entered.countDown();
                released.await(60, TimeUnit.SECONDS);
                return served.incrementAndGet();
            });
            List<CompletableFuture<Object>> many = new ArrayList<>();
            for (int call = 0; call < 3_000; call++) {
                many.add(analytics.submit("one", "work", Map.of(), SOON.multipliedBy(2)));
            }
            assertTrue(entered.await(60, TimeUnit.SECONDS));
            analytics.ping("one"); // all have arrived
            CompletableFuture<Object> other = billing.submit("one", "work", Map.of(), SOON.multipliedBy(2));
            billing.ping("one");
            released.countDown();
            assertTrue((Long) other.get(60, TimeUnit.SECONDS) <= 3, () -> "it was served as number " + other.join());
            for (CompletableFuture<Object> call : many) {
                call.get(60, TimeUnit.SECONDS);
            }
        }
    }

    @Test
    void aMessageIsHandledWhileServicesHoldAllTheirWorkers() {
        CountDownLatch entered = new CountDownLatch(4);
        billing.register("hold", request -> {
            entered.countDown();
            return released.await(60, TimeUnit.SECONDS);
        });
        billing.onMessage(message -> {});
        List<CompletableFuture<Object>> calls = new ArrayList<>();
        for (int call = 0; call < 4; call++) {
            calls.add(analytics.submit("billing", "hold", Map.of(), SOON));
        }
        awaits(entered);
        analytics.send("billing", 1, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertFalse(calls.get(0).isDone());
        released.countDown();
        calls.forEach(CompletableFuture::join);
    }

    @Test
    void aCallIsServedWhileHandlersHoldAllTheirWorkers() {
        CountDownLatch entered = new CountDownLatch(1);
        try (Node one = root.builder("one", "analytics").workers(1).open()) {
            one.register("quick", request -> "done");
            one.onMessage(message -> {
                entered.countDown();
                awaits(released);
            });
            analytics.send("one", 1);
            awaits(entered);
            assertEquals("done", analytics.call("one", "quick", Map.of(), SOON));
            released.countDown();
        }
    }

    @Test
    void callsThereAndBackGetTheirAnswersHoweverDeepTheyAre() {
        try (Node here = root.builder("here", "there", "here").workers(2).open();
                Node there = root.builder("there", "here").workers(2).open()) {
            deep(here, "there");
            deep(there, "here");
            assertEquals(20L, here.call("there", "deep", Map.of("n", 20L), SOON));
        }
    }

    private static void deep(Node node, String other) {
        node.register("deep", request -> {
            long n = request.get("n", Long.class);
            return n == 0 ? 0L : 1 + (Long) node.call(other, "deep", Map.of("n", n - 1), SOON);
        });
    }

    @Test
    void aServiceMayCallItsOwnNode() {
        try (Node one = root.builder("one", "analytics", "one").workers(1).open()) {
            one.register("inner", request -> "done");
            one.register("outer", request -> one.call("one", "inner", Map.of(), SOON));
            assertEquals("done", analytics.call("one", "outer", Map.of(), SOON));
        }
    }

    /** Who fetches messages and who rests wait at one place: none of them is woken instead of another. */
    @Test
    void callsAreServedWhileThreadsOfTheProgramWaitForMessages() {
        billing.register("one", request -> 1);
        for (int receiver = 0; receiver < 8; receiver++) {
            Thread thread = new Thread(
                    () -> {
                        try {
                            billing.receive(SOON.multipliedBy(3));
                        } catch (InterruptedException | NodeClosedException over) {
                            return;
                        }
                    },
                    "receiver");
            thread.setDaemon(true);
            thread.start();
        }
        for (int call = 0; call < 500; call++) {
            assertEquals(1L, analytics.call("billing", "one", Map.of(), SOON));
        }
    }

    private static void awaits(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException hurry) {
            throw new IllegalStateException(hurry);
        }
    }
}
