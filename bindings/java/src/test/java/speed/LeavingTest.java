package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import speed.errors.Execution;
import speed.errors.NodeClosedException;
import speed.errors.NodeLeavingException;
import speed.errors.NodeLeftException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;

/** R-15, T-12, T-13: leaving is said at once, and nobody waits for himself. */
class LeavingTest extends TwoNodes {
    private static final Duration LONG = Duration.ofHours(1);

    private final CountDownLatch entered = new CountDownLatch(1);
    private final CountDownLatch released = new CountDownLatch(1);
    private Node leaver;
    private Node newcomer;

    @BeforeEach
    void openLeaver() {
        leaver = root.builder("leaver", "analytics", "billing").workers(1).open();
    }

    @AfterEach
    void closeLeaver() {
        released.countDown();
        leaver.close(Duration.ZERO);
        if (newcomer != null) {
            newcomer.close();
        }
    }

    private static void awaits(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException hurry) {
            throw new IllegalStateException(hurry);
        }
    }

    private Thread leave(CompletableFuture<Object> inHand) {
        awaits(entered);
        Thread closing = new Thread(() -> leaver.close(LONG), "closing");
        closing.setDaemon(true);
        closing.start();
        for (long until = System.nanoTime() + SOON.toNanos(); isListed(); Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < until, "it does not say that it leaves");
        }
        assertTrue(!inHand.isDone());
        return closing;
    }

    private boolean isListed() {
        return analytics.nodes().stream().anyMatch(node -> node.name().equals("leaver"));
    }

    @Test
    void whoIsAboutToUseANodeThatLeavesIsRefusedAtOnceAndWhatItAcceptedIsAnswered() throws Exception {
        leaver.register("hold", request -> {
            entered.countDown();
            awaits(released);
            return "done";
        });
        leaver.subscribe("orders.*", event -> {});
        CompletableFuture<Object> inHand = analytics.submit("leaver", "hold", Map.of(), SOON.multipliedBy(2));
        Thread closing = leave(inHand);
        NodeLeftException refused =
                assertThrows(NodeLeftException.class, () -> analytics.call("leaver", "hold", Map.of()));
        assertEquals(Execution.NOT_BEGUN, refused.execution());
        assertThrows(NodeLeftException.class, () -> analytics.send("leaver", 1));
        assertThrows(NodeLeftException.class, () -> analytics.ping("leaver"));
        assertThrows(
                NodeLeftException.class,
                () -> leaver.send("leaver", 1),
                "a node that leaves is no exception to itself");
        assertThrows(UnknownNodeException.class, () -> analytics.waitFor("leaver", Duration.ofMillis(1)));
        assertEquals(new Published(List.of(), Map.of()), analytics.publish("orders.new", 1));
        released.countDown();
        assertEquals("done", inHand.get(60, TimeUnit.SECONDS));
        closing.join();
    }

    /** The only worker is held: what waits behind it is told when the time to leave is over. */
    @Test
    void whatStillWaitsWhenANodeHasLeftNeverBegan() throws Exception {
        leaver.register("hold", request -> {
            entered.countDown();
            awaits(released);
            return "done";
        });
        analytics.submit("leaver", "hold", Map.of(), SOON.multipliedBy(2));
        awaits(entered);
        CompletableFuture<Object> waiting = analytics.submit("leaver", "hold", Map.of(), SOON.multipliedBy(2));
        analytics.ping("leaver"); // it has arrived
        leaver.close(Duration.ofMillis(10));
        ExecutionException ended = assertThrows(ExecutionException.class, () -> waiting.get(60, TimeUnit.SECONDS));
        assertEquals(Execution.NOT_BEGUN, ((SpeedException) ended.getCause()).execution());
        assertEquals(NodeLeavingException.class, ended.getCause().getClass());
    }

    // --- close from inside ---

    private void closesFromInside(Consumer<Runnable> start) {
        CountDownLatch closed = new CountDownLatch(1);
        AtomicReference<RuntimeException> failure = new AtomicReference<>();
        start.accept(() -> {
            try {
                leaver.close(LONG); // an hour, if it waited for itself
            } catch (RuntimeException thrown) {
                failure.set(thrown);
            }
            closed.countDown();
        });
        awaits(closed);
        assertEquals(null, failure.get());
        assertThrows(NodeClosedException.class, () -> leaver.nodes());
    }

    @Test
    void aServiceMayCloseItsNode() {
        closesFromInside(close -> {
            leaver.register("close", request -> {
                close.run();
                return null;
            });
            analytics.submit("leaver", "close", Map.of());
        });
    }

    @Test
    void aHandlerMayCloseItsNode() {
        closesFromInside(close -> {
            leaver.onMessage(message -> close.run());
            analytics.send("leaver", 1);
        });
    }

    @Test
    void anEventMayCloseItsNode() {
        closesFromInside(close -> {
            leaver.subscribe("orders.*", event -> close.run());
            analytics.publish("orders.new", 1);
        });
    }

    @Test
    void whatHangsOnACallMayCloseItsNode() {
        billing.allow("leaver");
        billing.register("one", request -> 1);
        closesFromInside(close -> leaver.submit("billing", "one", Map.of()).thenRun(close));
    }

    @Test
    void aListenerMayCloseItsNode() {
        closesFromInside(close -> {
            leaver.onJoin(node -> close.run());
            newcomer = root.node("newcomer"); // it stays until it was seen
        });
    }
}
