package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.Execution;
import speed.errors.NodeStartingException;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** a node that starts is waited for, and not taken for one that refuses. */
@Timeout(300)
class StartingTest {
    private static final Duration SOON = Duration.ofSeconds(60);

    private BenchRoot root;
    private Node analytics;
    private Node billing;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        analytics = root.node("analytics", "billing");
        billing = Node.builder("billing")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .starting()
                .open();
    }

    @AfterEach
    void close() throws IOException {
        billing.close();
        analytics.close();
        root.close();
    }

    @Test
    void aCallWaitsUntilTheNodeIsReady() throws Exception {
        CompletableFuture<Object> answer =
                CompletableFuture.supplyAsync(() -> analytics.call("billing", "total", Map.of(), SOON));
        billing.register("total", request -> 7L);
        billing.allow("analytics");
        assertFalse(answer.isDone());
        billing.ready();
        assertEquals(7L, answer.get(60, TimeUnit.SECONDS));
    }

    @Test
    void aNodeThatIsStillStartingAtTheDeadlineIsReportedAsThat() {
        NodeStartingException error = assertThrows(
                NodeStartingException.class, () -> analytics.call("billing", "total", Map.of(), Duration.ofMillis(50)));
        assertEquals(Execution.NOT_BEGUN, error.execution());
    }

    @Test
    void aMessageWaitsForTheGrantOfANodeThatStarts() throws Exception {
        CompletableFuture<Void> sent = CompletableFuture.runAsync(
                () -> analytics.send("billing", "hello", SendOptions.DEFAULT.withTimeout(SOON)));
        billing.allow("analytics");
        sent.get(60, TimeUnit.SECONDS);
    }

    @Test
    void readyChangesNothingForANodeThatServes() {
        billing.ready();
        billing.ready();
        assertEquals(
                "billing",
                analytics.nodes().stream()
                        .filter(one -> one.name().equals("billing"))
                        .findFirst()
                        .orElseThrow()
                        .name());
    }
}
