package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.errors.NodeLeftException;
import speed.errors.UnknownNodeException;

/** What a node sees of the others. */
class PeersTest extends TwoNodes {
    @Test
    void joinsAndLeavesAreReported() throws IOException, InterruptedException {
        BlockingQueue<String> news = new LinkedBlockingQueue<>();
        billing.onJoin(node -> news.add("+" + node.name()));
        billing.onLeave(node -> news.add("-" + node.name()));
        try (Node guest = root.node("guest")) {
            assertEquals("+" + guest.name(), news.poll(60, TimeUnit.SECONDS)); // who is gone at once may pass unseen
        }
        assertEquals("-guest", news.poll(60, TimeUnit.SECONDS));
    }

    @Test
    void fabricsFilterListings() {
        try (Node labelled = Node.builder("labelled")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .fabrics("Finance")
                .open()) {
            assertEquals(
                    List.of("labelled"),
                    billing.nodes("Finance").stream().map(NodeInfo::name).toList());
            assertEquals(3, labelled.nodes().size());
        }
    }

    @Test
    void anEntryTellsWhoMayWriteAndWhichFamilyItIsOf() {
        NodeInfo node = new NodeInfo(
                "geo.east",
                1,
                "host",
                1,
                "java",
                "online",
                List.of(),
                List.of("etl.*"),
                List.of("etl.old"),
                List.of(),
                List.of(),
                "",
                List.of());
        assertEquals(
                List.of(true, false, false),
                List.of(node.allows("etl.app"), node.allows("etl.old"), node.allows("shop")));
        assertEquals(
                List.of(true, true, true, false, false),
                List.of(
                        node.isOneOf("geo.east"),
                        node.isOneOf("geo.*"),
                        node.isOneOf("*"),
                        node.isOneOf("geo"),
                        node.isOneOf("east.*")));
    }

    @Test
    void waitingForANodeThatDoesNotComeEnds() {
        assertThrows(UnknownNodeException.class, () -> billing.waitFor("nobody", Duration.ofMillis(20)));
    }

    @Test
    void aCallToANodeThatLeavesEnds() {
        CountDownLatch started = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        billing.register("slow", request -> {
            started.countDown();
            return released.await(60, TimeUnit.SECONDS);
        });
        CompletableFuture<Object> call = analytics.submit("billing", "slow", Map.of());
        assertTrue(waited(started));
        billing.close(Duration.ZERO);
        released.countDown();
        ExecutionException error = assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS));
        assertTrue(
                error.getCause() instanceof NodeLeftException, error.getCause().toString());
    }

    private static boolean waited(CountDownLatch latch) {
        try {
            return latch.await(60, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            return false;
        }
    }
}
