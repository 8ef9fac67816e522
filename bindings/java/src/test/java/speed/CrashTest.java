package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.NameTakenException;
import speed.errors.NodeLeftException;
import speed.internal.wire.Json;
import speed.internal.wire.Names;
import speed.options.SendOptions;
import speed.tool.Agent;
import speed.tool.BenchRoot;

/** What survives kill -9: real processes, real files. */
@Timeout(300)
class CrashTest {
    private static final Duration SOON = Duration.ofSeconds(60);

    private BenchRoot root;
    private Node analytics;
    private Process process;
    private PrintStream commands;
    private BufferedReader answers;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        analytics = root.node("analytics", "billing");
    }

    @AfterEach
    void close() throws IOException {
        process.destroyForcibly();
        analytics.close();
        root.close();
    }

    private Map<?, ?> startBilling() throws IOException {
        process = root.start(
                Agent.class.getName(),
                List.of(
                        "--name",
                        "billing",
                        "--root",
                        root.path().toString(),
                        "--key",
                        root.path().resolve("speed.key").toString(),
                        "--allow",
                        "analytics"));
        commands = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        return answer();
    }

    private Map<?, ?> answer() throws IOException {
        return (Map<?, ?>) Json.parse(answers.readLine());
    }

    private Map<?, ?> receive() throws IOException {
        commands.println("{\"id\":1,\"op\":\"receive\",\"timeout\":30}");
        return (Map<?, ?>) answer().get("result");
    }

    private void kill() throws InterruptedException {
        process.destroyForcibly();
        process.waitFor();
    }

    /** L-15: what was received and not finished comes again, marked; what was not received comes unmarked. */
    @Test
    void undeliveredMessagesSurviveAKilledReceiver() throws IOException, InterruptedException {
        startBilling();
        analytics.waitFor("billing", SOON);
        for (int n = 0; n < 3; n++) {
            analytics.send(
                    "billing", n, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        }
        assertEquals(0L, receive().get("payload"));
        assertEquals(1L, receive().get("payload"));
        kill();
        assertEquals(2L, startBilling().get("generation"));
        Map<?, ?> again = receive();
        assertEquals(1L, again.get("payload"));
        assertEquals(true, again.get("redelivered"));
        assertEquals(2L, receive().get("payload"));
    }

    /** G-14: all segments were kept, and only the last of them was not committed. */
    @Test
    void aPayloadInSegmentsComesAgainAfterItsReceiverWasKilled() throws IOException, InterruptedException {
        startBilling();
        analytics.waitFor("billing", SOON);
        analytics.segment("billing", 6400, 0.25);
        String payload = "x".repeat(100_000);
        analytics.send(
                "billing", payload, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(payload, receive().get("payload"));
        kill();
        startBilling();
        Map<?, ?> again = receive();
        assertEquals(payload, again.get("payload"));
        assertEquals(true, again.get("redelivered"));
        analytics.send(
                "billing", "next", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals("next", receive().get("payload"));
    }

    /** S-7: the caller of a killed node learns of it before its deadline. */
    @Test
    void aCallToAKilledNodeEnds() throws IOException, InterruptedException {
        startBilling();
        analytics.waitFor("billing", SOON);
        analytics.ping("billing");
        CompletableFuture<Object> call = analytics.submit("billing", "sleep", Map.of("seconds", 60));
        kill();
        ExecutionException error = assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS));
        assertTrue(
                error.getCause() instanceof NodeLeftException, error.getCause().toString());
    }

    /** a killed node's name is free at once, and it is told as having left. */
    @Test
    void aKilledNodesNameIsFreeAtOnce() throws IOException, InterruptedException {
        startBilling();
        kill();
        try (Node heir = root.node("billing", "analytics")) {
            assertEquals(2, heir.generation());
            assertNotNull(analytics.waitFor("billing", SOON));
        }
    }

    /** of two that want the name at once, the second sees the first's claim before its content. */
    @Test
    void aClaimSeenBeforeItsContentHoldsTheNameOfAKilledNode() throws Exception {
        startBilling();
        kill();
        Path claim = Files.createFile(claim("billing", 2));
        FutureTask<Node> second = new FutureTask<>(() -> root.node("billing", "analytics"));
        Thread waiting = new Thread(second, "second");
        waiting.start();
        awaitPauseOf(waiting);
        Files.write(claim, Files.readAllBytes(claim("analytics", 1))); // its maker lives
        ExecutionException refused = assertThrows(ExecutionException.class, () -> second.get(60, TimeUnit.SECONDS));
        assertEquals(NameTakenException.class, refused.getCause().getClass());
        assertFalse(Files.exists(claim("billing", 3)), "it claimed the name as well");
    }

    private Path claim(String name, int generation) {
        return Path.of(Names.claimPath(root.path().toString(), name, generation));
    }

    /** Returns when it has looked at the claim and is about to look again, or has ended. */
    private static void awaitPauseOf(Thread registrant) {
        while (registrant.isAlive() && registrant.getState() != Thread.State.TIMED_WAITING) {
            Thread.yield();
        }
    }
}
