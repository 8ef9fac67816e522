package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.Node;
import speed.errors.CallTimeoutException;
import speed.tool.BenchRoot;

/** T-11: each step of a turn is done, whatever becomes of the one before it. */
@Timeout(300)
class FailingScanTest {
    private final CountDownLatch released = new CountDownLatch(1);

    @Test
    void deadlinesHoldWhileNothingCanBeListed() throws IOException {
        try (BenchRoot root = new BenchRoot(null);
                Node billing = root.node("billing", "analytics");
                Node analytics = root.node("analytics", "billing")) {
            billing.register("hold", request -> released.await(50, TimeUnit.SECONDS));
            billing.register("one", request -> 1);
            assertEquals(1L, analytics.call("billing", "one", Map.of())); // both lanes are open
            FailingCall.during("getdents64", PosixException.EMFILE, () -> {
                Directory.makeIfAbsent(root.path() + "/analytics/inbox/guest"); // else there is nothing to list
                awaitFailure(analytics);
                assertThrows(
                        CallTimeoutException.class,
                        () -> analytics.call("billing", "hold", Map.of(), Duration.ofMillis(300)));
            });
            released.countDown();
            assertEquals(1L, analytics.call("billing", "one", Map.of())); // and all goes on as before
        }
    }

    private static void awaitFailure(Node node) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (((Map<?, ?>) node.stats().get("counters")).get("protocol_failures") == null) {
            assertTrue(System.nanoTime() < until, "no scan failed");
            Thread.yield();
        }
    }
}
