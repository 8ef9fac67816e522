package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.Execution;
import speed.errors.NodeLeftException;
import speed.errors.SpeedException;
import speed.tool.BenchRoot;

/** S-8, S-17: what ends its process runs at most once, or as often as was agreed. */
@Timeout(180)
class KilledServerTest {
    private static final Duration SOON = Duration.ofSeconds(60);

    private BenchRoot root;
    private Path done;
    private Node analytics;
    private Process server;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        done = root.path().resolve("done");
        analytics = root.node("analytics", "billing");
    }

    @AfterEach
    void close() throws IOException {
        server.destroyForcibly();
        analytics.close();
        root.close();
    }

    private void start(OnError policy, int maxDeliveries) throws IOException {
        server = FragileServer.start(root, done, policy, maxDeliveries);
        assertEquals('r', server.getInputStream().read());
        analytics.waitFor("billing", SOON);
    }

    private void awaitDeath() throws InterruptedException {
        assertTrue(server.waitFor(60, TimeUnit.SECONDS), "it lives");
    }

    private List<String> done() throws IOException {
        return Files.exists(done) ? Files.readAllLines(done) : List.of();
    }

    private void awaitDone(List<String> expected) throws IOException {
        for (long until = System.nanoTime() + SOON.toNanos(); !done().equals(expected); Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < until, done() + " instead of " + expected);
        }
    }

    @Test
    void aCallThatEndsItsProcessRunsOnceAndWhatWaitedBehindItRunsInTheNextLife() throws Exception {
        start(OnError.DEAD_LETTER, 5);
        CompletableFuture<Object> charge = analytics.submit("billing", "charge", Map.of(), SOON);
        CompletableFuture<Object> total = analytics.submit("billing", "total", Map.of(), SOON);
        awaitDeath();
        for (CompletableFuture<Object> call : List.of(charge, total)) {
            SpeedException left = (SpeedException) assertThrows(ExecutionException.class,
                    () -> call.get(40, TimeUnit.SECONDS)).getCause();
            assertEquals(NodeLeftException.class, left.getClass());
            assertEquals(Execution.MAY_HAVE_RUN, left.execution());
        }
        start(OnError.DEAD_LETTER, 5);
        awaitDone(List.of("charge " + done().get(0).substring(7), "total"));
        assertEquals("total", analytics.call("billing", "total", Map.of(), SOON)); // what came before it has been read
        assertEquals(List.of(done().get(0), "total", "total"), done());
    }

    @Test
    void anIdempotentServiceRunsAgainAndIsTold() throws Exception {
        start(OnError.DEAD_LETTER, 5);
        analytics.submit("billing", "again", Map.of(), SOON);
        awaitDeath();
        start(OnError.DEAD_LETTER, 5);
        awaitDone(List.of("again false", "again true"));
    }

    @Test
    void aMessageThatEndsItsProcessEachTimeIsADeadLetterInTheEnd() throws Exception {
        start(OnError.RETRY, 2);
        analytics.send("billing", "poison");
        awaitDeath();
        start(OnError.RETRY, 2);
        awaitDeath();
        start(OnError.RETRY, 2);
        analytics.send("billing", "next", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("poison 1 false", "poison 2 true", "next 1 false"), done());
        try (Stream<Path> letters = Files.list(root.path().resolve("billing/dead"))) {
            assertEquals(List.of("00000001.letter"), letters.map(file -> file.getFileName().toString()).toList());
        }
        try (Stream<Path> lane = Files.list(root.path().resolve("billing/inbox/analytics"))) {
            assertEquals(0, lane.filter(file -> file.getFileName().toString().startsWith("deliveries.")).count());
        }
    }

    @Test
    void withDropItIsGoneInTheEnd() throws Exception {
        start(OnError.DROP, 1);
        analytics.send("billing", "poison");
        awaitDeath();
        start(OnError.DROP, 1);
        analytics.send("billing", "next", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("poison 1 false", "next 1 false"), done());
    }
}
