package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.LeaseLostException;
import speed.errors.NameTakenException;
import speed.errors.RegistrationException;
import speed.errors.StorageException;
import speed.errors.WireException;
import speed.internal.core.AccessPolicy;
import speed.internal.fs.Registry.EntryFile;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;

/** claims, and the entries that follow them, with real files. */
class ClaimsTest {
    private static final long LEASE = 30_000;
    private static final long HEARTBEAT = 5_000;
    private static final long GONE = 1L << 22; // no process has an id beyond pid_max

    @TempDir
    Path root;

    private Registry registry;

    @BeforeEach
    void prepare() {
        registry = new Registry(root.toString(), new Keyring(List.of(new byte[32])));
        registry.prepare();
    }

    private Registrant registrant(long lease, long heartbeat) {
        return new Registrant(
                registry, "billing", lease, heartbeat, 0, List.of(), new AccessPolicy(), false, false, "");
    }

    private Registration register() {
        return registrant(LEASE, HEARTBEAT).register(won -> {});
    }

    private Path claim(int generation) {
        return root.resolve("speed_registry/.claims/billing.%06d".formatted(generation));
    }

    private Path entry() {
        return root.resolve("speed_registry/billing.node");
    }

    private static Entry.Process process(long pid, String boot) {
        Entry.Process me = ThisProcess.identity();
        return new Entry.Process(pid, me.start(), me.namespace(), me.host(), boot);
    }

    private boolean take(Claimant claimant) throws PosixException {
        return Claim.take(root.toString(), "billing", 1, claimant, registry.keyring());
    }

    private void takeClaim(Entry.Process maker, long made) throws PosixException {
        assertTrue(take(new Claimant(maker, 100, made, 0, false, false)));
    }

    // --- claims ---

    @Test
    void aClaimIsWonOnceAndReadBack() throws PosixException {
        Claimant mine = new Claimant(ThisProcess.identity(), LEASE, 7, 0, false, false);
        assertTrue(take(mine));
        assertFalse(take(mine));
        assertEquals(mine, Claim.read(root.toString(), "billing", 1, registry.keyring()));
        assertFalse(Claim.isReleased(root.toString(), "billing", 1).orElseThrow());
        assertTrue(Claim.isReleased(root.toString(), "billing", 2).isEmpty());
        Claim.release(root.toString(), "billing", 2);
    }

    @Test
    void aClaimThatTellsNoTimeNeverExpiresAndAnUnreadableOneTellsNothing() throws IOException {
        Claimant former = new Claimant(ThisProcess.identity(), LEASE, Claimant.ABSENT, 0, false, false);
        assertFalse(former.isExpired(Long.MAX_VALUE));
        Files.writeString(claim(1), "{\"pid\": 1}");
        assertNull(Claim.read(root.toString(), "billing", 1, registry.keyring()));
        Files.writeString(
                claim(1),
                "{\"pid\": 1, \"pid_start\": 2, \"pid_namespace\": \"n\", \"host\": \"h\","
                        + " \"boot_id\": \"b\", \"lease\": 3}");
        assertEquals(
                -1,
                Claim.read(root.toString(), "billing", 1, registry.keyring()).made());
        assertNull(Claim.read(root.toString(), "billing", 9, registry.keyring()));
    }

    /** no entry will follow it, so it must not keep the name for a lease. */
    @Test
    void aClaimThatIsNotOnTheDiskIsGivenBack() throws PosixException {
        FailingCall.during("fsync", PosixException.ENOSPC, () -> assertThrows(StorageException.class, this::register));
        assertTrue(Claim.isReleased(root.toString(), "billing", 1).orElseThrow());
        assertEquals(2, register().entry().generation());
        FailingCall.during("openat", PosixException.EMFILE, () -> assertThrows(StorageException.class, this::register));
    }

    @Test
    void theClaimOfADeadProcessIsPassedAtOnce() throws PosixException {
        takeClaim(process(GONE, ThisProcess.bootId()), Posix.monotonicMs());
        assertEquals(2, register().entry().generation());
    }

    @Test
    void theClaimOfALivingProcessHoldsTheNameForItsLease() throws PosixException {
        takeClaim(ThisProcess.identity(), Posix.monotonicMs() + LEASE);
        NameTakenException taken = assertThrows(NameTakenException.class, this::register);
        assertTrue(taken.getMessage().contains("is being claimed"), taken.getMessage());
    }

    @Test
    void aClaimThatHasStoodItsLeaseIsPassed() throws PosixException {
        takeClaim(ThisProcess.identity(), 0);
        assertEquals(2, register().entry().generation());
    }

    /** its entry may be there, only not for this key. */
    @Test
    void aClaimWhoseEntryThisKeyDoesNotOpenHoldsTheName() throws IOException {
        takeClaim(ThisProcess.identity(), 0);
        Files.writeString(entry(), "sealed by another key");
        NameTakenException taken = assertThrows(NameTakenException.class, this::register);
        assertTrue(taken.getMessage().contains("use the key of this root"), taken.getMessage());
    }

    @Test
    void theClaimOfAnotherBootIsWatchedForItsLease() throws PosixException {
        takeClaim(process(1, "another boot"), 0);
        long began = Posix.monotonicMs();
        assertEquals(2, register().entry().generation());
        assertTrue(Posix.monotonicMs() - began >= 100);
    }

    /** the whole wait is half a minute. */
    @Test
    void whoWaitsForAClaimSaysSoOnceAndHowToEndIt() throws Exception {
        Files.createFile(claim(1));
        PrintStream before = System.err;
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
        CompletableFuture<Registration> waiting = CompletableFuture.supplyAsync(this::register);
        try {
            while (!log.toString(StandardCharsets.UTF_8).contains("does not tell its maker")) {
                assertFalse(waiting.isDone());
                Thread.sleep(10);
            }
            Thread.sleep(200);
            Files.setPosixFilePermissions(claim(1), PosixFilePermissions.fromString("r--------"));
            assertEquals(2, waiting.get().entry().generation());
        } finally {
            System.setErr(before);
        }
        assertEquals(
                1,
                log.toString(StandardCharsets.UTF_8)
                        .lines()
                        .filter(line -> line.contains("chmod 400"))
                        .count());
    }

    @Test
    void anInterruptEndsTheWaitingForAName() throws PosixException {
        takeClaim(process(1, "another boot"), 0);
        Thread.currentThread().interrupt();
        assertThrows(RegistrationException.class, this::register);
        assertTrue(Thread.interrupted());
    }

    // --- registration ---

    @Test
    void aRegistrationThatFailsGivesTheNameBack() {
        assertThrows(
                IllegalStateException.class,
                () -> registrant(LEASE, HEARTBEAT).register(won -> {
                    throw new IllegalStateException("cannot fence");
                }));
        assertEquals(2, register().entry().generation());
    }

    @Test
    void aRegistrationThatTookLongerThanItsLeaseIsGivenUp() {
        assertThrows(
                LeaseLostException.class,
                () -> registrant(20, 5).register(won -> {
                    long end = Posix.monotonicMs() + 21;
                    while (Posix.monotonicMs() <= end) {
                        Thread.onSpinWait();
                    }
                }));
        assertFalse(Files.exists(entry()));
        assertEquals(2, register().entry().generation());
    }

    @Test
    void aHigherClaimBeatsASlowRegistrant() {
        assertThrows(
                LeaseLostException.class,
                () -> registrant(LEASE, HEARTBEAT).register(won -> {
                    try {
                        Files.createFile(claim(won.generation() + 1));
                    } catch (IOException error) {
                        throw new AssertionError(error);
                    }
                }));
    }

    /** the clock of another boot is not compared with this one's. */
    @Test
    void aSilentHolderOnAnotherBootIsWatchedForItsLease() throws IOException {
        Registration live = register();
        Entry held = live.entry();
        Entry elsewhere = new Entry(
                "billing",
                1,
                process(1, "another boot"),
                new Entry.Times(held.times().startupTimestamp(), held.times().lastHeartbeat(), 0, 100, 30),
                new Entry.Published(Entry.ONLINE, List.of(), List.of(), List.of(), List.of(), List.of()),
                "java",
                "1",
                List.of(),
                false);
        Files.write(entry(), elsewhere.encode(registry.keyring().registryKeys().get(0), 0));
        long began = Posix.monotonicMs();
        assertEquals(2, register().entry().generation());
        assertTrue(Posix.monotonicMs() - began >= 100);
        live.abandon();
    }

    // --- entry files ---

    @Test
    void whatIsNoEntryFileIsNotRead() throws IOException {
        Files.createDirectory(root.resolve("directory"));
        assertThrows(
                WireException.class,
                () -> EntryFile.read(root.resolve("directory").toString()));
        Files.write(root.resolve("large"), new byte[1 << 20]);
        assertThrows(
                WireException.class, () -> EntryFile.read(root.resolve("large").toString()));
        assertThrows(
                PosixException.class,
                () -> EntryFile.read(root.resolve("absent").toString()));
    }

    /** another owner may publish between the look and the removal. */
    @Test
    void anEntryThatBecameAnothersIsPutBackUnlessANewerOneIsThere() throws IOException {
        Files.writeString(entry(), "another's");
        AtomicInteger looks = new AtomicInteger();
        EntryFile.remove(root.toString(), "billing", path -> looks.incrementAndGet() == 1);
        assertEquals("another's", Files.readString(entry()));
        looks.set(0);
        EntryFile.remove(root.toString(), "billing", path -> looks.incrementAndGet() == 1 || !publish("newer"));
        assertEquals("newer", Files.readString(entry()));
        try (var files = Files.list(root.resolve("speed_registry"))) {
            assertEquals(2, files.count());
        }
    }

    private boolean publish(String text) {
        try {
            Files.writeString(entry(), text);
            return true;
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    @Test
    void anEntryThatIsNotMeantOrGoneIsLeftAlone() throws IOException {
        Files.writeString(entry(), "another's");
        EntryFile.remove(root.toString(), "billing", path -> false);
        assertTrue(Files.exists(entry()));
        Files.delete(entry());
        EntryFile.remove(root.toString(), "billing", path -> true);
        Files.writeString(entry(), "mine");
        FailingCall.during(
                "renameat",
                PosixException.EACCES,
                () -> assertThrows(
                        PosixException.class, () -> EntryFile.remove(root.toString(), "billing", path -> true)));
        assertNotNull(Files.readString(entry()));
    }
}
