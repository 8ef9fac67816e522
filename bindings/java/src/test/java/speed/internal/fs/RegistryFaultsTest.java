package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.Node;
import speed.errors.LeaseLostException;
import speed.errors.NameTakenException;
import speed.errors.SpeedException;
import speed.errors.StorageException;
import speed.internal.core.AccessPolicy;
import speed.internal.core.Counters;
import speed.internal.core.RegistryView;
import speed.internal.fs.Registry.EntryFile;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** what cannot be seen is not gone, and what was taken away stays away. */
@Timeout(300)
class RegistryFaultsTest {
    private static final long SECONDS = 60;
    private static final List<Integer> FAILURES = List.of(
            PosixException.EIO,
            PosixException.ENOMEM,
            PosixException.ENFILE,
            PosixException.EMFILE,
            PosixException.ESTALE);

    @TempDir
    Path root;

    private Registry registry;

    @BeforeEach
    void prepare() {
        registry = new Registry(root.toString(), new Keyring(List.of(new byte[32])));
        registry.prepare();
    }

    private Registration register() {
        return new Registrant(registry, "billing", 30_000, 5_000, 0, List.of(), new AccessPolicy(), false, false, "")
                .register(won -> {});
    }

    private Path entry() {
        return root.resolve("speed_registry/billing.node");
    }

    private boolean isPublished() {
        return Files.exists(entry());
    }

    // --- the root ---

    @Test
    void aRegistryThatIsGoneIsNotAnEmptyOne() throws Exception {
        assertTrue(registry.absence("billing").contains("no live node"));
        Files.delete(root.resolve("speed_registry/.claims"));
        Files.delete(root.resolve("speed_registry"));
        for (Runnable ask : List.<Runnable>of(() -> registry.absence("billing"), registry::liveEntries)) {
            assertTrue(
                    assertThrows(StorageException.class, ask::run).getMessage().contains("is gone"));
        }
    }

    // --- standard descriptors ---

    @Test
    void aFileThatTheSystemOpensAsAStandardDescriptorIsDuplicatedAboveIt() throws Exception {
        int standard = Posix.duplicate(0);
        Posix.close(0);
        try {
            int file = Posix.open("/dev/null", Posix.O_RDONLY, 0);
            assertTrue(file > 2, () -> "it is " + file);
            Posix.close(file);
        } finally {
            Libc.fcntl(standard, 0, 0); // F_DUPFD: the lowest that is free
            Posix.close(standard);
        }
    }

    // --- what cannot be read ---

    @Test
    void anEntryThatWasNeverReadIsNeitherAbsentNorForged() throws Exception {
        register();
        Registry others = new Registry(root.toString(), new Keyring(List.of(new byte[32])));
        for (int errno : FAILURES) {
            FailingCall.during("openat", errno, () -> {
                String text = assertThrows(StorageException.class, () -> others.absence("billing"))
                        .getMessage();
                assertTrue(text.contains("cannot be read"), text);
            });
        }
        assertTrue(others.absence("nobody").startsWith("no live node named 'nobody'"));
    }

    // --- processes ---

    @Test
    void aProcessThatCannotBeLookedAtIsNotGone() throws Exception {
        Entry.Process me = ThisProcess.identity();
        Entry.Process former = new Entry.Process(me.pid(), me.start() - 1, me.namespace(), me.host(), me.bootId());
        assertTrue(ThisProcess.isGone(former));
        NoDescriptors.during(() -> {
            assertFalse(ThisProcess.isGone(me));
            assertFalse(ThisProcess.isGone(former)); // nobody can tell
        });
    }

    @Test
    void aProcessThatEndedAndIsNotWaitedForIsGone() throws Exception {
        Process child = new ProcessBuilder("/bin/sh", "-c", "read line").start();
        Path stat = Path.of("/proc/" + child.pid() + "/stat");
        String[] fields = Files.readString(stat).split("\\) ")[1].split(" ");
        Entry.Process me = ThisProcess.identity();
        Entry.Process theirs =
                new Entry.Process(child.pid(), Long.parseLong(fields[19]), me.namespace(), me.host(), me.bootId());
        assertFalse(ThisProcess.isGone(theirs));
        child.destroy();
        child.waitFor();
        assertTrue(ThisProcess.isGone(theirs));
    }

    // --- reading ---

    @Test
    void aRegistryThatCannotBeListedIsNotEmpty() throws PosixException {
        register();
        for (int errno : FAILURES) {
            FailingCall.during("getdents64", errno, () -> {
                assertThrows(StorageException.class, registry::liveEntries);
                assertThrows(StorageException.class, registry::removeStale);
            });
        }
        FailingCall.during(
                "openat", PosixException.EACCES, () -> assertThrows(StorageException.class, registry::liveEntries));
        assertEquals(1, registry.liveEntries().size());
    }

    @Test
    void anEntryThatCannotBeReadCountsAsItWasReadLast() throws IOException {
        register();
        Entry read = registry.live("billing");
        for (int errno : FAILURES) {
            for (String call : List.of("openat", "statx")) {
                FailingCall.during(call, errno, () -> {
                    assertEquals(read, registry.live("billing"));
                    assertFalse(registry.isGone("billing"));
                    assertNull(registry.live("analytics"));
                });
            }
        }
        Files.delete(entry());
        assertNull(registry.live("billing"));
    }

    /** a name is not taken on the word of a look that failed. */
    @Test
    void aNameWhoseEntryCannotBeReadIsNotTaken() throws PosixException {
        register();
        Claim.release(root.toString(), "billing", 1);
        prepare(); // a registry that has read nothing yet
        BooleanSupplier readingAnEntry = () -> StackWalker.getInstance()
                .walk(frames -> frames.anyMatch(frame -> frame.getClassName().equals(EntryFile.class.getName())));
        FailingCall.during(
                "openat",
                PosixException.EIO,
                readingAnEntry,
                () -> assertEquals(
                        StorageException.class,
                        assertThrows(SpeedException.class, this::register).getClass()));
        assertThrows(NameTakenException.class, this::register);
    }

    @Test
    void anEventThatReachesNobodyBecauseTheRegistryCannotBeListedIsAnError() throws IOException {
        try (BenchRoot bench = new BenchRoot(null);
                Node billing = bench.node("billing", "analytics");
                Node analytics = bench.node("analytics")) {
            billing.subscribe("orders.*", message -> {});
            FailingCall.during("getdents64", PosixException.EMFILE, () -> {
                assertThrows(StorageException.class, () -> analytics.publish("orders.new", 1, SendOptions.DEFAULT));
                assertThrows(StorageException.class, analytics::nodes);
            });
            assertEquals(
                    1, analytics.publish("orders.new", 1, SendOptions.DEFAULT).count());
        }
    }

    @Test
    void aWatchKeepsWhatItSawWhileTheRegistryCannotBeListed() throws Exception {
        Registration live = register();
        BlockingQueue<RegistryView.Event> events = new LinkedBlockingQueue<>();
        BlockingQueue<String> counted = new LinkedBlockingQueue<>();
        RegistryWatch watch = new RegistryWatch(registry, "watching", events::add, counted::add);
        CountDownLatch twice = new CountDownLatch(2); // what the first look brought is known when the second begins
        BooleanSupplier looked = () -> {
            twice.countDown();
            return true;
        };
        FailingCall.during("getdents64", PosixException.EMFILE, looked, () -> assertTrue(waited(twice)));
        assertNull(events.peek());
        assertEquals(Counters.REGISTRY_UNLISTED, counted.poll());
        live.remove();
        assertEquals(
                RegistryView.Kind.LEFT, events.poll(SECONDS, TimeUnit.SECONDS).kind());
        watch.stop();
    }

    private static boolean waited(CountDownLatch latch) {
        try {
            return latch.await(SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException unexpected) {
            return false;
        }
    }

    @Test
    void aWatchThatCannotBeginIsAnErrorAndMayBeginLater() throws Exception {
        try (BenchRoot bench = new BenchRoot(null);
                Node billing = bench.node("billing")) {
            BlockingQueue<String> news = new LinkedBlockingQueue<>();
            FailingCall.during(
                    "getdents64",
                    PosixException.EMFILE,
                    () -> assertThrows(
                            StorageException.class, () -> billing.onJoin(node -> news.add("lost " + node.name()))));
            billing.onJoin(node -> news.add(node.name()));
            try (Node guest = bench.node("guest")) {
                assertEquals(guest.name(), news.poll(SECONDS, TimeUnit.SECONDS));
            }
        }
    }

    // --- one's own entry ---

    /** the heartbeat may have waited for the removal. */
    @Test
    void aHeartbeatAfterTheRemovalPublishesNothing() throws PosixException {
        Registration registration = register();
        registration.remove();
        registration.heartbeat();
        assertFalse(isPublished());
        assertEquals(2, register().entry().generation());
    }

    /** a later life would begin with a generation that was used. */
    @Test
    void aClaimThatIsRemovedIsMadeAgain() throws Exception {
        Path claim = root.resolve("speed_registry/.claims/billing.000001");
        Registration registration = register();
        Files.delete(claim);
        registration.heartbeat();
        assertTrue(Files.exists(claim));
        assertEquals(1, registration.claimsRestored());
        Files.delete(claim);
        registration.remove();
        assertTrue(Claim.isReleased(root.toString(), "billing", 1).orElseThrow(), "who leaves makes it as well");
    }

    /** L-29: its receiver may have given the payload up. */
    @Test
    void aSenderWhoseLeaseEndsInsideAPayloadSaysThatItMayNotHaveArrived() throws Exception {
        Duration lease = Duration.ofSeconds(3);
        try (BenchRoot bench = new BenchRoot(null);
                Node billing = bench.node("billing", "analytics");
                Node analytics = Node.builder("analytics")
                        .root(bench.path())
                        .key(bench.path().resolve("speed.key"))
                        .lease(lease, Duration.ofMillis(200))
                        .open()) {
            Thread sender = Thread.currentThread();
            AtomicLong until = new AtomicLong();
            BooleanSupplier late = () -> { // heartbeats stand still from the first piece on
                if (Thread.currentThread() == sender) {
                    until.compareAndSet(0, Posix.monotonicMs() + lease.toMillis() + 100);
                }
                Posix.pause(Math.max(0, until.get() - Posix.monotonicMs()));
                return false;
            };
            FailingCall.during("pwrite", PosixException.EIO, late, () -> {
                String text = assertThrows(
                                LeaseLostException.class, () -> analytics.send(billing.name(), new byte[1 << 20]))
                        .getMessage();
                assertTrue(text.contains("may not have been delivered"), text);
            });
        }
    }

    @Test
    void grantsThatCouldNotBePublishedAreNotPublishedByTheNextHeartbeat() throws PosixException {
        Registration registration = register();
        FailingCall.during(
                "pwrite",
                PosixException.EIO,
                () -> assertThrows(StorageException.class, () -> registration.allow(new AccessPolicy("analytics"))));
        registration.heartbeat();
        assertEquals(List.of(), registry.live("billing").published().allow());
    }

    @Test
    void aStartThatFailsAfterItsEntryAppearedTakesItAway() throws IOException {
        FailingCall.during(
                "getdents64",
                PosixException.EIO,
                this::isPublished,
                () -> assertThrows(StorageException.class, this::register));
        assertFalse(isPublished());
        assertTrue(Claim.isReleased(root.toString(), "billing", 1).orElseThrow());
        assertEquals(0, openInRegistry());
        assertNotNull(register());
    }

    @Test
    void lowerClaimsThatCannotBeRemovedStay() throws IOException {
        register().remove();
        AtomicInteger calls = new AtomicInteger();
        BooleanSupplier afterTheCheck = () -> isPublished() && calls.incrementAndGet() > 2; // which takes two calls
        FailingCall.during(
                "getdents64",
                PosixException.EIO,
                afterTheCheck,
                () -> assertEquals(2, register().entry().generation()));
        assertTrue(calls.get() > 2);
        assertTrue(isPublished());
        assertTrue(Files.exists(root.resolve("speed_registry/.claims/billing.000001")));
    }

    private long openInRegistry() throws IOException {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            return open.filter(this::leadsIntoRegistry).count();
        }
    }

    private boolean leadsIntoRegistry(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).startsWith(root.resolve("speed_registry"));
        } catch (IOException closed) {
            return false;
        }
    }
}
