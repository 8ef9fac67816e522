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
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.NameTakenException;
import speed.internal.core.AccessPolicy;
import speed.internal.fs.Claiming.SweepHold;
import speed.internal.wire.Contract;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;

/** what is left of names that do not come back is removed, and nothing that anybody may need. */
@Timeout(300)
class SweepTest {
    private static final long LEASE = 30_000;
    private static final long GONE = 1L << 22; // no process has an id beyond pid_max

    @TempDir
    Path root;

    private final Keyring ring = new Keyring(List.of(new byte[32]));
    private Registry registry;

    @BeforeEach
    void prepare() {
        registry = new Registry(root.toString(), ring);
        registry.prepare();
    }

    private Registration register(Registry by, String name, boolean ephemeral) {
        return new Registrant(by, name, LEASE, LEASE / 6, 0, List.of(), new AccessPolicy(), ephemeral, false, "")
                .register(won -> {});
    }

    /** An ephemeral node that ran and left. */
    private void makeEphemeral() throws IOException {
        Registration registration = register(registry, "worker", true);
        Files.createDirectories(root.resolve("worker/inbox"));
        Files.createSymbolicLink(root.resolve("worker/inbox/link"), root);
        registration.expire();
    }

    private boolean sweep() throws PosixException {
        return Sweep.sweep(registry, "worker");
    }

    private int newest(String name) throws PosixException {
        return Claim.newest(root.toString(), name);
    }

    /** Everything in the root that bears a name. */
    private List<Path> filesOf(String name) throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            return files.filter(file -> file.getFileName().toString().startsWith(name))
                    .toList();
        }
    }

    private static Entry.Process process(long pid, String boot) {
        Entry.Process me = ThisProcess.identity();
        return new Entry.Process(pid, me.start(), me.namespace(), me.host(), boot);
    }

    private void take(int generation, long pid, boolean ephemeral, boolean sweeps) throws PosixException {
        Claimant claimant =
                new Claimant(process(pid, ThisProcess.bootId()), LEASE, Posix.monotonicMs(), 0, ephemeral, sweeps);
        assertTrue(Claim.take(root.toString(), "worker", generation, claimant, ring));
    }

    private void publish(String name, Entry.Process owner, long heartbeat, boolean ephemeral) throws IOException {
        Entry entry = new Entry(
                name,
                1,
                owner,
                new Entry.Times(1, 1, heartbeat, LEASE, LEASE / 6),
                new Entry.Published(Entry.ONLINE, List.of(), List.of(), List.of(), List.of(), List.of()),
                "java",
                "1",
                List.of(),
                ephemeral);
        Files.write(
                root.resolve("speed_registry/" + name + ".node"),
                entry.encode(ring.registryKeys().get(0), 0));
    }

    // --- claims ---

    @TestFactory
    Stream<DynamicTest> aClaimTellsWhatIsStated() {
        Contract vectors = Contract.vectors("floors");
        List<byte[]> keys = new Keyring(vectors.keys("accepted_keys")).registryKeys();
        return vectors.each("claims", one -> {
            Claimant read = Claimant.decode(one.bytes("hex"), keys);
            assertEquals(one.get("claim"), read == null ? null : fields(read));
        });
    }

    private static Map<String, Object> fields(Claimant claimant) {
        Map<String, Object> fields = new HashMap<>();
        fields.put("pid", claimant.maker().pid());
        fields.put("boot_id", claimant.maker().bootId());
        fields.put("lease", claimant.lease());
        fields.put("made_monotonic_ms", claimant.made());
        fields.put("above", claimant.above() == Claimant.ABSENT ? null : (long) claimant.above());
        fields.put("ephemeral", claimant.ephemeral());
        fields.put("sweeps", claimant.sweeps());
        return fields;
    }

    @Test
    void aClaimIsReadBackAsWritten() {
        Claimant all = new Claimant(ThisProcess.identity(), LEASE, 7, 3, true, true);
        Claimant least = new Claimant(ThisProcess.identity(), LEASE, Claimant.ABSENT, Claimant.ABSENT, false, false);
        for (Claimant one : List.of(all, least)) {
            assertEquals(one, Claimant.decode(one.encode(ring.registryKeys().get(0)), ring.registryKeys()));
        }
    }

    // --- forgetting ---

    @Test
    void allThatIsLeftOfAnEphemeralNameGoes() throws IOException {
        makeEphemeral();
        assertTrue(sweep());
        assertEquals(List.of(), filesOf("worker"));
        assertEquals(1, FloorFile.of(root.toString(), "worker", ring));
        assertTrue(Files.exists(root.resolve("speed_registry")), "a link was followed");
    }

    @Test
    void aNameThatComesBackBeginsAboveWhatWasForgotten() throws IOException {
        for (int life = 1; life < 4; life++) {
            makeEphemeral();
            assertEquals(life, newest("worker"));
            assertTrue(sweep());
        }
    }

    @Test
    void aClaimTellsWhatWasForgottenBeforeItsNameWasClaimedAgain() throws IOException {
        makeEphemeral();
        sweep();
        register(registry, "worker", false).remove();
        register(registry, "worker", false).remove();
        assertEquals(1, FloorFile.forgottenUpTo(root.toString(), "worker", ring));
    }

    @Test
    void aNameStaysWhileAnInboxHoldsALaneOfIt() throws IOException {
        makeEphemeral();
        Path lane = Files.createDirectories(root.resolve("billing/inbox/worker"));
        assertFalse(sweep());
        assertEquals(1, newest("worker"));
        assertFalse(Files.exists(root.resolve("worker")));
        Files.delete(lane);
        assertTrue(sweep());
    }

    @Test
    void anInboxThatCannotBeLookedIntoCountsAsOneWithALane() throws IOException {
        Files.createDirectories(root.resolve("billing/inbox"));
        assertFalse(Sweep.hasLanes(root.toString(), "worker"));
        boolean[] holds = new boolean[1];
        FailingCall.during("statx", PosixException.EACCES, () -> holds[0] = Sweep.hasLanes(root.toString(), "worker"));
        assertTrue(holds[0]);
    }

    @Test
    void aLiveEphemeralNodeIsLeftAlone() throws IOException {
        Registration registration = register(registry, "worker", true);
        assertFalse(sweep());
        assertEquals(registration.entry(), registry.live("worker"));
        registration.abandon();
    }

    @Test
    void anEphemeralNodeWhoseProcessIsGoneIsForgottenAtOnce() throws IOException {
        take(1, GONE, true, false);
        publish("worker", process(GONE, ThisProcess.bootId()), Posix.monotonicMs(), true);
        assertTrue(sweep());
        assertEquals(List.of(), filesOf("worker"));
    }

    @Test
    void aClaimWhoseEphemeralMakerDiedBeforeItPublishedGoes() throws IOException {
        take(1, GONE, true, false);
        assertTrue(sweep());
        assertEquals(List.of(), filesOf("worker"));
    }

    @Test
    void theClaimOfAnEphemeralNodeThatStartsIsLeftAlone() throws IOException {
        take(1, ThisProcess.identity().pid(), true, false);
        assertFalse(sweep());
        assertEquals(1, newest("worker"));
    }

    @Test
    void whatASweeperLeftThatDiedIsSweptByTheNext() throws IOException {
        makeEphemeral();
        take(2, GONE, true, true);
        assertTrue(sweep());
        assertEquals(List.of(), filesOf("worker"));
    }

    @Test
    void anOrdinaryNodeThatLeftKeepsClaimAndDirectory() throws IOException {
        register(registry, "worker", false).remove();
        Files.createDirectories(root.resolve("worker/inbox"));
        assertFalse(sweep());
        assertEquals(2, filesOf("worker").size());
    }

    @Test
    void anOrdinaryLifeAfterAnEphemeralOneIsNotForgotten() throws IOException {
        makeEphemeral();
        register(registry, "worker", false).remove();
        assertFalse(sweep());
        assertFalse(Sweep.forget(registry, "worker"));
        assertEquals(2, newest("worker"));
    }

    @Test
    void aDirectoryThatCannotBeRemovedKeepsTheName() throws IOException {
        makeEphemeral();
        FailingCall.during(
                "unlinkat",
                PosixException.EACCES,
                () -> StackWalker.getInstance()
                        .walk(frames ->
                                frames.anyMatch(frame -> frame.getMethodName().equals("removeTree"))),
                () -> assertThrows(PosixException.class, this::sweep));
        assertEquals(1, newest("worker"));
        assertTrue(sweep());
    }

    @Test
    void anEntryThatCannotBeRemovedKeepsItsClaim() throws IOException {
        makeEphemeral();
        FailingCall.during(
                "renameat",
                PosixException.EACCES,
                () -> StackWalker.getInstance()
                        .walk(frames ->
                                frames.anyMatch(frame -> frame.getMethodName().equals("removeStale"))),
                () -> assertFalse(sweep()));
        assertEquals(1, newest("worker"));
        assertTrue(sweep());
        assertEquals(List.of(), filesOf("worker"));
    }

    // --- stale entries ---

    @Test
    void anEntryGoesOnceItHasBeenStaleForALease() throws IOException {
        publish("worker", ThisProcess.identity(), Posix.monotonicMs() - 2 * LEASE - 1000, false);
        assertTrue(sweep());
        assertEquals(List.of(), filesOf("worker"));
    }

    /** Who asks for it is told when it was last heard of. */
    @Test
    void anEntryThatBecameStaleOfLateStays() throws IOException {
        publish("worker", ThisProcess.identity(), Posix.monotonicMs() - LEASE - 1000, false);
        assertFalse(sweep());
        assertEquals(1, filesOf("worker").size());
    }

    @Test
    void staleEntriesOfEphemeralNodesGoOnlyWithTheirClaims() throws IOException {
        makeEphemeral();
        assertEquals(List.of(), registry.removeStale());
        assertNotNull(registry.read("worker"));
    }

    // --- holding a name ---

    @Test
    void whoStartsWaitsForASweeperAndThenBegins() throws IOException {
        makeEphemeral();
        CompletableFuture<Integer> started;
        try (SweepHold hold = new SweepHold(registry, "worker")) {
            CountDownLatch begun = new CountDownLatch(1);
            started = CompletableFuture.supplyAsync(() -> {
                begun.countDown();
                return register(new Registry(root.toString(), ring), "worker", false)
                        .entry()
                        .generation();
            });
            begun.await();
            assertEquals(hold.generation(), newest("worker"));
            assertFalse(started.isDone());
        } catch (InterruptedException impossible) {
            throw new AssertionError(impossible);
        }
        assertEquals(2, started.join());
    }

    @Test
    void aSweeperThatDoesNotEndIsNotPushedAside() throws IOException {
        try (SweepHold hold = new SweepHold(registry, "worker")) {
            NameTakenException taken =
                    assertThrows(NameTakenException.class, () -> register(registry, "worker", false));
            assertTrue(taken.getMessage().contains("is removing what is left"), taken.getMessage());
            assertEquals(hold.generation(), newest("worker"));
        }
    }

    @Test
    void aNameThatSomebodyHoldsIsNotSweptByAnother() throws IOException {
        makeEphemeral();
        try (SweepHold hold = new SweepHold(registry, "worker")) {
            assertTrue(hold.isEphemeral());
            assertFalse(sweep());
        }
        assertTrue(sweep());
    }

    @Test
    void nobodyWaitsToSweepWhatAnotherBootMayHold() throws IOException {
        Entry.Process elsewhere = process(1, "another boot");
        publish("billing", elsewhere, 1, false);
        assertThrows(NameTakenException.class, () -> new SweepHold(registry, "billing"));
        Claimant claimant = new Claimant(elsewhere, LEASE, Claimant.ABSENT, 0, false, false);
        assertTrue(Claim.take(root.toString(), "worker", 1, claimant, ring));
        NameTakenException taken = assertThrows(NameTakenException.class, () -> new SweepHold(registry, "worker"));
        assertTrue(taken.getMessage().contains("cannot be seen from here"), taken.getMessage());
    }

    /** The name is forgotten between the look at its claim and the claim that follows it. */
    @Test
    void whoseNameIsForgottenWhileItIsClaimedBeginsAboveThat() throws IOException {
        makeEphemeral();
        boolean[] isSwept = new boolean[1];
        int[] generation = new int[1];
        FailingCall.during(
                "openat",
                0,
                () -> {
                    boolean isDue = !isSwept[0]
                            && StackWalker.getInstance()
                                    .walk(frames -> frames.anyMatch(
                                            frame -> frame.getMethodName().equals("take")
                                                    && frame.getClassName().equals(Claim.class.getName())));
                    if (isDue) {
                        isSwept[0] = true;
                        forgetNow();
                    }
                    return false;
                },
                () -> generation[0] =
                        register(registry, "worker", false).entry().generation());
        assertTrue(isSwept[0]);
        assertEquals(2, generation[0]);
        assertEquals(1, FloorFile.forgottenUpTo(root.toString(), "worker", ring));
    }

    private void forgetNow() {
        try {
            assertTrue(Sweep.sweep(new Registry(root.toString(), ring), "worker"));
        } catch (PosixException error) {
            throw new AssertionError(error);
        }
    }

    @Test
    void manyWhoSweepAndStartAtOnceNeverUseAGenerationTwice() {
        ConcurrentLinkedQueue<Integer> generations = new ConcurrentLinkedQueue<>();
        CompletableFuture.allOf(IntStream.range(0, 4)
                        .mapToObj(n -> CompletableFuture.runAsync(() -> liveOften(generations)))
                        .toArray(CompletableFuture<?>[]::new))
                .join();
        assertFalse(generations.isEmpty());
        assertEquals(generations.size(), new HashSet<>(generations).size(), generations.toString());
    }

    private void liveOften(ConcurrentLinkedQueue<Integer> generations) {
        Registry own = new Registry(root.toString(), ring);
        for (int life = 0; life < 15; life++) {
            try {
                Registration registration = register(own, "worker", true);
                generations.add(registration.entry().generation());
                registration.expire();
            } catch (NameTakenException another) {
                // it lives, or somebody sweeps
            }
            try {
                Sweep.sweep(own, "worker");
            } catch (PosixException error) {
                throw new AssertionError(error);
            }
        }
    }

    // --- looking through the registry ---

    private Set<String> leftovers(Map<String, Integer> ordinary, long untouchedMs) throws PosixException {
        List<String> found = new ArrayList<>();
        Iterator<String> names = Sweep.leftovers(registry, ordinary, untouchedMs);
        names.forEachRemaining(found::add);
        assertEquals(found.size(), new HashSet<>(found).size());
        return new HashSet<>(found);
    }

    @Test
    void aRoundNamesEntriesAndEphemeralClaimsWithoutOne() throws IOException {
        Registration alive = register(registry, "alive", false);
        register(registry, "left", false).remove();
        take(1, GONE, true, false);
        Map<String, Integer> ordinary = new HashMap<>(Map.of("gone", 3));
        assertEquals(Set.of("alive", "worker"), leftovers(ordinary, 0));
        assertEquals(Map.of("left", 1), ordinary);
        assertEquals(Set.of("worker"), leftovers(ordinary, 10_000));
        alive.remove();
    }

    @Test
    void entriesThatNobodyWritesAnyMoreAreNotCountedAsLive() throws IOException {
        Registration alive = register(registry, "alive", false);
        Registration dead = register(registry, "dead", false);
        FileTime hourAgo = FileTime.from(Instant.now().minus(Duration.ofHours(1)));
        Files.setLastModifiedTime(Path.of(Names.entryPath(registry.root(), "dead")), hourAgo);
        assertEquals(1, Sweep.writtenWithin(registry, 30_000));
        alive.remove();
        dead.remove();
    }

    @Test
    void aClaimThatStaysIsNotReadAgain() throws IOException {
        register(registry, "left", false).remove();
        Map<String, Integer> ordinary = new HashMap<>();
        assertEquals(Set.of(), leftovers(ordinary, 0));
        boolean[] isRead = new boolean[1];
        FailingCall.during(
                "pread",
                0,
                () -> {
                    isRead[0] = true;
                    return false;
                },
                () -> assertEquals(Set.of(), leftovers(ordinary, 0)));
        assertFalse(isRead[0]);
        assertNull(registry.live("left"));
    }
}
