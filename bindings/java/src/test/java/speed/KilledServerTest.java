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
import speed.options.OnError;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** S-8, S-17: what ends its process runs at most once, or as often as was agreed. */
@Timeout(300)
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

    private static SpeedException failureOf(CompletableFuture<Object> call) {
        return (SpeedException) assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS))
                .getCause();
    }

    @Test
    void aCallThatEndsItsProcessRunsOnceAndWhatWaitedForItNeverRunsInTheNextLife() throws Exception {
        start(OnError.DEAD_LETTER, 5);
        CompletableFuture<Object> charge = analytics.submit("billing", "charge", Map.of(), SOON);
        CompletableFuture<Object> total = analytics.submit("billing", "total", Map.of(), SOON);
        awaitDeath();
        assertEquals(Execution.MAY_HAVE_RUN, failureOf(charge).execution());
        SpeedException left = failureOf(total);
        assertEquals(NodeLeftException.class, left.getClass());
        assertEquals(Execution.NOT_BEGUN, left.execution());
        start(OnError.DEAD_LETTER, 5);
        assertEquals("total", analytics.call("billing", "total", Map.of(), SOON)); // what came before it has been read
        assertEquals(List.of(done().get(0), "total"), done());
        assertTrue(done().get(0).startsWith("charge "), done().toString());
    }

    @Test
    void whatHadNotBegunIsSentAgainToASuccessorWhileItsProgramWaits() throws Exception {
        start(OnError.DEAD_LETTER, 5);
        CompletableFuture<Object> charge = analytics.submit("billing", "charge", Map.of(), SOON);
        CompletableFuture<Object> total = analytics.submit("billing", "total", Map.of(), SOON);
        awaitDeath();
        start(OnError.DEAD_LETTER, 5);
        assertEquals(Execution.MAY_HAVE_RUN, failureOf(charge).execution());
        long ran = 0;
        try {
            assertEquals("total", total.get(60, TimeUnit.SECONDS));
            ran = 1;
        } catch (ExecutionException late) { // this machine took too long to start the next process
            assertEquals(Execution.NOT_BEGUN, ((SpeedException) late.getCause()).execution());
        }
        analytics.ping("billing");
        assertEquals(ran, done().stream().filter("total"::equals).count());
    }

    @Test
    void anIdempotentServiceRunsAgainWhileItsCallerWaitsAndSeesThatItRepeats() throws Exception {
        start(OnError.DEAD_LETTER, 5);
        CompletableFuture<Object> again = analytics.submit("billing", "again", Map.of(), SOON);
        awaitDeath();
        start(OnError.DEAD_LETTER, 5);
        List<String> expected = List.of("again false");
        try {
            again.get(60, TimeUnit.SECONDS);
            expected = List.of("again false", "again true");
        } catch (ExecutionException late) { // this machine took too long to start the next process
            assertEquals(Execution.MAY_HAVE_RUN, ((SpeedException) late.getCause()).execution());
        }
        assertEquals(expected, done());
    }

    @Test
    void aMessageThatEndsItsProcessEachTimeIsADeadLetterInTheEnd() throws Exception {
        start(OnError.RETRY, 2);
        analytics.send("billing", "poison");
        awaitDeath();
        start(OnError.RETRY, 2);
        awaitDeath();
        start(OnError.RETRY, 2);
        analytics.send(
                "billing", "next", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("poison 1 false", "poison 2 true", "next 1 false"), done());
        try (Stream<Path> letters = Files.list(root.path().resolve("billing/dead"))) {
            assertEquals(
                    List.of("00000001.letter"),
                    letters.map(file -> file.getFileName().toString()).toList());
        }
        try (Stream<Path> lane = Files.list(root.path().resolve("billing/inbox/analytics"))) {
            assertEquals(
                    0,
                    lane.filter(file -> file.getFileName().toString().startsWith("deliveries."))
                            .count());
        }
    }

    @Test
    void withDropItIsGoneInTheEnd() throws Exception {
        start(OnError.DROP, 1);
        analytics.send("billing", "poison");
        awaitDeath();
        start(OnError.DROP, 1);
        analytics.send(
                "billing", "next", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("poison 1 false", "next 1 false"), done());
    }
}
