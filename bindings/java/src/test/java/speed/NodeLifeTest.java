package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;
import speed.errors.DurabilityException;
import speed.errors.KeyFileException;
import speed.errors.LeaseLostException;
import speed.errors.NameTakenException;
import speed.errors.NodeClosedException;
import speed.errors.RootException;
import speed.errors.ServiceExistsException;
import speed.errors.SpeedException;
import speed.internal.fs.Filesystem;
import speed.internal.fs.KeyFiles;
import speed.internal.fs.Registry;
import speed.internal.wire.Names;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** How a node begins and ends, and with which settings. */
class NodeLifeTest extends TwoNodes {
    @Test
    void aLiveNameIsTakenAndAClosedOneIsFree() {
        assertThrows(NameTakenException.class, () -> root.node("billing"));
        billing.close();
        billing = root.node("billing");
        assertEquals(2, billing.generation());
    }

    @Test
    void aClosedNodeSaysSo() {
        billing.close();
        billing.close();
        assertTrue(billing.isClosed());
        assertThrows(NodeClosedException.class, () -> billing.send("analytics", 1));
        assertThrows(NodeClosedException.class, () -> billing.nodes());
    }

    @Test
    void aClosedNodeLeavesNoThread() {
        billing.close();
        analytics.close();
        long deadline = System.nanoTime() + SOON.toNanos();
        while (threads() > 0 && System.nanoTime() < deadline) {
            Thread.onSpinWait();
        }
        assertEquals(0, threads());
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("speed-"))
                .count();
    }

    @Test
    void impossibleSettingsAreRefused() throws IOException {
        assertThrows(ServiceExistsException.class, () -> {
            billing.register("one", request -> 1);
            billing.register("one", request -> 2);
        });
        Node.Builder other =
                Node.builder("other").root(root.path()).key(root.path().resolve("speed.key"));
        assertThrows(ConfigurationException.class, () -> other.workers(0).open());
        assertThrows(
                ConfigurationException.class,
                () -> other.workers(1)
                        .lease(Duration.ofSeconds(1), Duration.ofSeconds(1))
                        .open());
        Files.setPosixFilePermissions(root.path().resolve("speed.key"), PosixFilePermissions.fromString("rw-r--r--"));
        assertThrows(KeyFileException.class, () -> root.node("third"));
    }

    @Test
    void diskDurabilityIsRefusedInMemoryAndGivenOnADisk() throws IOException {
        boolean inMemory = root.path().startsWith("/dev/shm");
        if (inMemory) {
            assertThrows(
                    DurabilityException.class,
                    () -> Node.builder("d")
                            .root(root.path())
                            .key(root.path().resolve("speed.key"))
                            .durable()
                            .open());
        }
        try (BenchRoot disk = new BenchRoot("target");
                Node receiver = disk.node("receiver", "sender");
                Node sender = Node.builder("sender")
                        .root(disk.path())
                        .key(disk.path().resolve("speed.key"))
                        .durable()
                        .open()) {
            sender.send("receiver", 1, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
            assertEquals(2, receiver.nodes().size());
        }
    }

    /** L-22: a wrong answer of the look for FIFOs would stay for the life of a node. */
    @Test
    void ofManyNodesThatStartAtOnceNonePolls() throws Exception {
        List<String> names =
                IntStream.range(0, 60).mapToObj(number -> "node" + number).toList();
        ExecutorService threads = Executors.newFixedThreadPool(names.size());
        try {
            List<Callable<Node>> starts = new ArrayList<>();
            names.forEach(name -> starts.add(() -> root.node(name)));
            for (Future<Node> start : threads.invokeAll(starts)) {
                start.get().close();
            }
        } finally {
            threads.shutdown();
        }
        for (String name : names) {
            assertTrue(Files.exists(Path.of(Names.bellPath(root.path().toString(), name))), name + " polls");
        }
    }

    /** L-22 */
    @Test
    void aStartInWhichAFifoFailsForNoReasonOfTheFilesystemFails() {
        assertTrue(Filesystem.of(root.path().toString()).supportsFifo());
        assertThrows(RootException.class, () -> Filesystem.of(root.path() + "/gone"));
    }

    @Test
    void nodesThatPollTalkWithNodesThatRing() {
        try (Node poller = Node.builder("poller")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .allow("analytics")
                .polling()
                .open()) {
            analytics.allow("poller");
            poller.register("one", request -> 1);
            analytics.register("two", request -> 2);
            assertEquals(1L, analytics.call("poller", "one", Map.of()));
            assertEquals(2L, poller.call("analytics", "two", Map.of()));
        }
    }

    /** an interval that is no whole number of seconds is not rounded up to one. */
    @Test
    void aNodeRenewsItsLeaseAfterEachHeartbeatInterval() throws InterruptedException {
        Registry registry = new Registry(
                root.path().toString(),
                KeyFiles.load(root.path().resolve("speed.key").toString()));
        try (Node beating = root.builder("beating")
                .lease(Duration.ofSeconds(20), Duration.ofMillis(1_100))
                .open()) {
            long deadline = System.nanoTime() + SOON.toNanos();
            long last = registry.live(beating.name()).heartbeatMonotonicMs();
            long shortest = Long.MAX_VALUE;
            while (shortest >= 1_900) {
                assertTrue(System.nanoTime() < deadline, "renewed every " + shortest + " ms");
                long next = registry.live(beating.name()).heartbeatMonotonicMs();
                shortest = next == last ? shortest : Math.min(shortest, next - last);
                last = next;
                Thread.sleep(10);
            }
            assertTrue(shortest >= 1_100, "renewed after " + shortest + " ms");
        }
    }

    /** who takes its file away while a higher claim stands has its name. */
    @Test
    void aProgramIsNotifiedThatItsLeaseIsGone() throws Exception {
        CompletableFuture<SpeedException> lost = new CompletableFuture<>();
        try (Node loser = root.builder("loser")
                .lease(Duration.ofSeconds(3), Duration.ofMillis(200))
                .open()) {
            loser.onLost(lost::complete);
            Files.createFile(Path.of(Names.claimPath(root.path().toString(), "loser", 2)));
            Files.delete(Path.of(Names.entryPath(root.path().toString(), "loser")));
            assertEquals("LEASE_LOST", lost.get(60, TimeUnit.SECONDS).code());
            assertThrows(LeaseLostException.class, loser::nodes);
            assertTrue(loser.isClosed());
        }
    }

    /** W-20: what is wrong with the file is counted with each heartbeat, and the keys of before go on. */
    @Test
    void aNodeGoesOnWithItsKeysWhileTheirFileIsNotSound() throws Exception {
        Path key = root.path().resolve("speed.key");
        try (Node beating = root.builder("beating")
                .allow("analytics")
                .lease(Duration.ofSeconds(20), Duration.ofMillis(50))
                .open()) {
            beating.register("one", request -> 1);
            analytics.allow("beating");
            Files.writeString(key, "SPEED-KEY-V1\n\nAAAA");
            long deadline = System.nanoTime() + SOON.toNanos();
            while (!(beating.stats().get("counters") instanceof Map<?, ?> counters
                    && counters.get("key_files_refused") instanceof Long refused
                    && refused >= 3)) {
                assertTrue(System.nanoTime() < deadline, "nothing was refused");
                Thread.sleep(10);
            }
            assertEquals(1L, analytics.call("beating", "one", Map.of()));
        }
    }
}
