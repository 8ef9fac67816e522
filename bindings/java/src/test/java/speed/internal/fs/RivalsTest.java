package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.NameTakenException;
import speed.errors.RegistrationException;
import speed.internal.core.AccessPolicy;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;

/** what others do to a name while it is being taken, each at the moment when it matters. */
@Timeout(300)
class RivalsTest {
    private static final long LEASE = 30_000;
    private static final long WATCHED = 200;
    private static final long GONE = 1L << 22; // no process has an id beyond pid_max
    private static final String ELSEWHERE = "another boot";

    private interface Act {
        void run() throws IOException;
    }

    @TempDir
    Path root;

    private Registry registry;

    @BeforeEach
    void prepare() {
        registry = new Registry(root.toString(), new Keyring(List.of(new byte[32])));
        registry.prepare();
    }

    private int register() {
        return new Registrant(registry, "billing", LEASE, LEASE / 6, 0, List.of(), new AccessPolicy(), false, false, "")
                .register(won -> {})
                .entry()
                .generation();
    }

    /** Registers; at the n-th call of a C function, and only then, a rival acts first. */
    private int registerWhile(String call, int nth, Act rival) throws PosixException {
        AtomicInteger calls = new AtomicInteger();
        int[] won = new int[1];
        FailingCall.during(
                call,
                0,
                () -> {
                    if (calls.incrementAndGet() == nth) {
                        act(rival);
                    }
                    return false;
                },
                () -> won[0] = register());
        assertTrue(calls.get() >= nth, "only " + calls + " calls of " + call);
        return won[0];
    }

    private static void act(Act rival) {
        try {
            rival.run();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private Path claim(int generation) {
        return root.resolve("speed_registry/.claims/billing.%06d".formatted(generation));
    }

    private Path entry() {
        return root.resolve("speed_registry/billing.node");
    }

    private void createReleased(int generation) throws IOException {
        Files.createFile(
                claim(generation), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("r--------")));
    }

    private static Entry.Process process(long pid, String boot) {
        Entry.Process me = ThisProcess.identity();
        return new Entry.Process(pid, me.start(), me.namespace(), me.host(), boot);
    }

    private void publish(int generation, Entry.Process owner, long heartbeat) throws IOException {
        Entry entry = new Entry(
                "billing",
                generation,
                owner,
                new Entry.Times(1, heartbeat, heartbeat, WATCHED, WATCHED / 6),
                new Entry.Published(Entry.ONLINE, List.of(), List.of(), List.of(), List.of(), List.of()),
                "java",
                "1",
                List.of(),
                false);
        Files.write(entry(), entry.encode(registry.keyring().registryKeys().get(0), 0));
    }

    private void take(Entry.Process maker, int generation) throws PosixException {
        Claimant claimant = new Claimant(maker, LEASE, 0, 0, false, false);
        assertTrue(Claim.take(root.toString(), "billing", generation, claimant, registry.keyring()));
    }

    private void claimElsewhere(int generation) throws PosixException {
        take(process(1, ELSEWHERE), generation);
    }

    // --- claims ---

    @Test
    void aClaimThatIsJustBeingWrittenIsReadAgain() throws IOException {
        Files.createFile(claim(1));
        assertEquals(
                2,
                registerWhile(
                        "statx",
                        4,
                        () -> Files.writeString(
                                claim(1),
                                "{\"pid\": " + GONE
                                        + ", \"pid_start\": 1, \"pid_namespace\": \""
                                        + ThisProcess.identity().namespace()
                                        + "\", \"host\": \"h\", \"boot_id\": \"" + ThisProcess.bootId()
                                        + "\", \"lease\": 30000}")));
    }

    @Test
    void aClaimOfAnotherHostIsNoLongerWatchedOnceItIsGivenBack() throws IOException {
        claimElsewhere(1);
        assertEquals(
                2,
                registerWhile(
                        "statx",
                        4,
                        () -> Files.setPosixFilePermissions(claim(1), PosixFilePermissions.fromString("r--------"))));
    }

    @Test
    void aClaimOfAnotherHostIsNoLongerWatchedOnceItsEntryIsThere() throws IOException {
        claimElsewhere(1);
        assertEquals(2, registerWhile("statx", 4, () -> publish(1, process(1, ELSEWHERE), 1)));
    }

    @Test
    void aClaimOfAnotherHostIsNoLongerWatchedOnceANewerOneIsThere() throws IOException {
        claimElsewhere(1);
        assertEquals(3, registerWhile("statx", 4, () -> createReleased(2)));
    }

    @Test
    void aSuccessorThatDiedBeforeItsEntryAppearedIsPassed() throws IOException {
        createReleased(1);
        publish(1, process(GONE, ThisProcess.bootId()), 1);
        take(process(GONE, ThisProcess.bootId()), 2);
        assertEquals(3, register());
    }

    /** a sender need not look at the process of a node whose heartbeat is young; a listing does. */
    @Test
    void aListingLeavesOutWhoWasKilledHoweverYoungItsHeartbeatIs() throws IOException {
        publish(1, process(GONE, ThisProcess.bootId()), Posix.monotonicMs() + WATCHED);
        assertEquals(List.of(), registry.surelyLiveEntries());
        publish(2, ThisProcess.identity(), Posix.monotonicMs() + WATCHED);
        assertEquals(1, registry.surelyLiveEntries().size());
    }

    /** the claim that was listed last may not be the newest where views are old. */
    @Test
    void aGenerationBelowANewerClaimIsGivenBack() throws IOException {
        assertEquals(3, registerWhile("fsync", 1, () -> createReleased(2)));
        assertFalse(Files.exists(claim(1)));
    }

    @Test
    void aNameThatOthersClaimAgainAndAgainIsTaken() {
        assertThrows(
                NameTakenException.class,
                () -> FailingCall.during(
                        "fsync",
                        0,
                        () -> {
                            act(this::outbid);
                            return false;
                        },
                        this::register));
    }

    private void outbid() throws IOException {
        int newest = Claim.newest(root.toString(), "billing");
        if (!Claim.isReleased(root.toString(), "billing", newest).orElse(true)) {
            createReleased(newest + 1);
        }
    }

    // --- entries ---

    @Test
    void aWatchedHolderThatGivesASignHoldsTheName() throws IOException {
        publish(1, process(1, ELSEWHERE), 1);
        NameTakenException taken = assertThrows(
                NameTakenException.class, () -> registerWhile("statx", 4, () -> publish(1, process(1, ELSEWHERE), 2)));
        assertTrue(taken.getMessage().contains("is held by process 1"), taken.getMessage());
    }

    @Test
    void aWatchedHolderThatLeavesFreesTheName() throws IOException {
        createReleased(1);
        publish(1, process(1, ELSEWHERE), 1);
        assertEquals(2, registerWhile("statx", 4, () -> Files.delete(entry())));
    }

    @Test
    void anInterruptEndsTheWatchingOfAHolder() throws IOException {
        publish(1, process(1, ELSEWHERE), 1);
        Thread.currentThread().interrupt();
        assertThrows(RegistrationException.class, this::register);
        assertTrue(Thread.interrupted());
    }
}
