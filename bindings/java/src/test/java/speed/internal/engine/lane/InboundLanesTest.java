package speed.internal.engine.lane;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import speed.internal.core.AccessPolicy;
import speed.internal.fs.Inbox;
import speed.internal.fs.LaneReader;
import speed.internal.fs.LaneWriter;
import speed.internal.fs.OpenFiles;
import speed.internal.fs.PosixException;
import speed.internal.fs.Received;
import speed.internal.fs.ThisProcess;
import speed.internal.node.RunningNode;
import speed.internal.wire.Block;
import speed.internal.wire.Contract;
import speed.internal.wire.Entry;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Json;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Limits;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.NodeId;
import speed.tool.BenchRoot;

/** L-21, L-26, L-27: which lanes are read, and which hold files open; real files, a clock of the test. */
@Timeout(300)
class InboundLanesTest {
    private static final int FEW = 4;
    private static final long GRACE = (long) (Limits.UNGRANTED_LANE_GRACE_SECONDS * 1e9);

    private BenchRoot root;
    /** Lends its registry: none of the senders here is in it. */
    private RunningNode host;

    private Keyring ring;
    private InboundLanes lanes;
    private final Set<String> granted = new HashSet<>();
    private final Map<String, Long> counters = new HashMap<>();

    @BeforeEach
    void open() throws IOException, PosixException {
        root = new BenchRoot(null);
        host = new RunningNode(root, "host");
        ring = host.runtime.context().registry.keyring();
        lanes = open(1);
    }

    @AfterEach
    void close() throws IOException {
        lanes.close();
        host.close();
        root.close();
    }

    private InboundLanes open(int generation) throws PosixException {
        Inbox inbox = new Inbox(root.path().toString(), "billing", generation, ring, false);
        inbox.prepare();
        return new InboundLanes(host.runtime.context(), inbox, granted::contains, lane -> {}, FEW);
    }

    private void send(String source, String text) {
        LaneWriter writer = writer(source);
        send(source, text, writer);
        writer.close();
    }

    private LaneWriter writer(String source) {
        LaneMac mac = new LaneMac(ring, NodeId.of(source), NodeId.of("billing"));
        return new LaneWriter(
                root.path().toString(), source, "billing", 1, mac, new LaneWriter.WriteOptions(1 << 26, false, false));
    }

    private void send(String source, String text, LaneWriter writer) {
        long counter = counters.merge(source, 1L, Long::sum);
        NodeId from = NodeId.of(source);
        NodeId to = NodeId.of("billing");
        Block block = new Block(text.length() + 104);
        int bytes = new LinkSealer(ring, from, to, 1, nonce -> {})
                .seal(block, 0, EnvelopeType.MESSAGE, 0, counter, 1, text.getBytes(StandardCharsets.UTF_8));
        writer.append(block, List.of(bytes));
    }

    private static String text(Received received) {
        return new String(received.payload(), StandardCharsets.UTF_8);
    }

    /** Reads and finishes what a lane has, as the protocol does. */
    private List<String> read(InboundLane lane) {
        try {
            LaneReader.Batch batch = lane.read(100, 1 << 20, System.nanoTime(), true);
            if (batch.received().isEmpty()) {
                lanes.idle(lane, true);
            } else {
                lanes.used(lane);
            }
            lane.finish(batch.received().stream().map(Received::token).toList());
            return batch.received().stream().map(InboundLanesTest::text).toList();
        } catch (PosixException failure) {
            throw new AssertionError(failure);
        }
    }

    private List<String> scan(boolean everything) throws PosixException {
        List<String> texts = new ArrayList<>();
        lanes.list(0);
        lanes.due(Set.of(), everything, lane -> texts.addAll(read(lane)));
        return texts;
    }

    private List<String> filesOf(String source) throws IOException {
        return OpenFiles.below(Path.of(root.path().toString(), "billing", "inbox", source));
    }

    private static String[] texts(Contract one, String name) {
        return ((List<?>) one.get(name)).toArray(String[]::new);
    }

    /** L-21: the vectors. */
    @TestFactory
    Stream<DynamicTest> aLaneThatWasThereWaitsForAGrant() {
        return Contract.vectors("first_scan").each("cases", one -> {
            AccessPolicy policy = new AccessPolicy(texts(one, "allow"));
            policy.deny(texts(one, "deny"));
            policy.observe(List.of(texts(one, "observers")));
            boolean wrote = (Boolean) one.get("wrote");
            Inbox inbox = new Inbox(root.path().toString(), "billing", 1, ring, false);
            InboundLanes some = new InboundLanes(
                    host.runtime.context(), inbox, source -> policy.publishes(source) || wrote, lane -> {}, FEW);
            Path lane = root.path().resolve("billing/inbox").resolve(one.text("source"));
            if ((Boolean) one.get("there")) {
                Files.createDirectory(lane);
            }
            some.list(0);
            Files.createDirectories(lane);
            some.list((long) (((Number) one.get("seconds")).doubleValue() * 1e9));
            assertEquals(one.get("opened"), some.of(NodeId.of(one.text("source"))) != null);
            some.close();
            try (Stream<Path> files = Files.walk(lane)) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        });
    }

    @Test
    void whatLayThereAtTheStartWaitsForItsGrant() throws PosixException {
        send("guest", "early");
        assertEquals(List.of(), scan(true));
        assertNull(lanes.of(NodeId.of("guest")));
        lanes.list(GRACE - 1);
        assertNull(lanes.of(NodeId.of("guest")));
        granted.add("guest");
        assertEquals(List.of("early"), scan(false));
    }

    @Test
    void afterTheGraceWhatLayThereAtTheStartIsRead() throws PosixException {
        send("guest", "early");
        assertEquals(List.of(), scan(true));
        lanes.list(GRACE);
        assertNotNull(lanes.of(NodeId.of("guest")));
    }

    @Test
    void whatComesLaterWaitsForNoGrant() throws PosixException {
        assertEquals(List.of(), scan(true));
        send("guest", "late");
        assertEquals(List.of("late"), scan(false));
    }

    @Test
    void ofManySendersFewHoldFilesOpen() throws IOException, PosixException {
        scan(true);
        for (int n = 0; n < 3 * FEW; n++) {
            send("sender" + n, "text");
        }
        assertEquals(3 * FEW, scan(false).size());
        assertEquals(
                3 * FEW, OpenFiles.below(root.path().resolve("billing/inbox")).size(), "three each");
    }

    @Test
    void whatIsUnfinishedInALaneAtRestIsFinishedAndCommitted() throws IOException, PosixException {
        scan(true);
        send("guest", "slow");
        lanes.list(0);
        InboundLane lane = lanes.of(NodeId.of("guest"));
        List<Received> received =
                lane.read(100, 1 << 20, System.nanoTime(), true).received();
        lane.rest();
        assertEquals(List.of(), filesOf("guest"));
        assertTrue(lane.finish(received.stream().map(Received::token).toList()));
        assertEquals(List.of(), filesOf("guest"));
        lane.abandon();
        lanes = open(2);
        granted.add("guest");
        assertEquals(List.of(), scan(true));
    }

    @Test
    void whatWasToBeCommittedLaterIsCommittedBeforeTheRest() throws PosixException {
        scan(true);
        send("guest", "refused");
        lanes.list(0);
        InboundLane lane = lanes.of(NodeId.of("guest"));
        lane.read(100, 1 << 20, System.nanoTime(), true).received().forEach(received -> lane.drop(received.token()));
        lane.rest();
        lane.abandon();
        lanes = open(2);
        granted.add("guest");
        assertEquals(List.of(), scan(true));
    }

    @Test
    void whatASenderWroteJustBeforeItsEndIsReadBeforeItsLaneIsLetGo() throws IOException, PosixException {
        scan(true);
        LaneWriter writer = writer("guest");
        send("guest", "first", writer);
        for (int n = 0; n <= FEW; n++) { // so many that the guest's lane rests
            scan(false);
            send("sender" + n, "one");
        }
        scan(false);
        Path lane = root.path().resolve("billing/inbox/guest");
        Files.setLastModifiedTime(lane, FileTime.fromMillis(1)); // the clock that stamps files has passed that
        assertEquals(List.of(), scan(true));
        send("guest", "last", writer); // in the segment that it had: nothing shows in the directory
        assertEquals(List.of("last"), scan(true));
        writer.close();
    }

    @Test
    void aLaneWithSomethingUnfinishedIsNotLetGo() throws PosixException {
        scan(true);
        send("guest", "slow");
        lanes.list(0);
        InboundLane lane = lanes.of(NodeId.of("guest"));
        List<Received> received =
                lane.read(100, 1 << 20, System.nanoTime(), true).received();
        for (int look = 0; look < 3; look++) {
            scan(true);
        }
        assertTrue(lane.finish(received.stream().map(Received::token).toList()));
    }

    /** Its sender is in no registry. */
    private void awaitEnd(String source) throws PosixException {
        InboundLane lane = lanes.of(NodeId.of(source));
        long until = System.nanoTime() + 60_000_000_000L;
        while (!lane.isClosed()) {
            assertEquals(List.of(), scan(true));
            assertTrue(System.nanoTime() < until, "it is kept");
        }
    }

    @Test
    void theLaneOfASenderThatIsGoneIsLetGoAndReadAgainWhenItChanges() throws IOException, PosixException {
        scan(true);
        for (int n = 0; n <= FEW; n++) { // so many that the first one rests
            send("sender" + n, "one");
            scan(false);
        }
        awaitEnd("sender0");
        assertEquals(List.of(), filesOf("sender0"));
        send("sender0", "two");
        assertEquals(List.of("two"), scan(true));
    }

    @Test
    void theLaneOfASenderThatIsGoneIsReadWhenItRings() throws PosixException {
        scan(true);
        for (int n = 0; n <= FEW; n++) {
            send("sender" + n, "one");
            scan(false);
        }
        awaitEnd("sender0");
        send("sender0", "two");
        assertEquals(List.of("two"), read(lanes.of(NodeId.of("sender0"))));
    }

    /** A claim of this process, as its file says it. */
    private Path claim(int generation, String further) throws IOException {
        Entry.Process me = ThisProcess.identity();
        Map<String, Object> fields = new HashMap<>(Map.of(
                "pid",
                me.pid(),
                "pid_start",
                me.start(),
                "pid_namespace",
                me.namespace(),
                "host",
                me.host(),
                "boot_id",
                me.bootId(),
                "lease",
                600_000,
                "ephemeral",
                true,
                "above",
                0));
        fields.put(further, true);
        String line = Json.write(fields);
        byte[] mac = Entry.mac(ring.registryKeys().get(0), line.getBytes(StandardCharsets.US_ASCII));
        Path file = root.path().resolve("speed_registry/.claims/guest.%06d".formatted(generation));
        return Files.writeString(file, line + "\n" + new String(mac, StandardCharsets.US_ASCII) + "\n");
    }

    /** L-27: others may sweep at any moment what is left of its sender. */
    @Test
    void theLaneOfAnEphemeralSenderThatIsGoneIsRemovedOnceNobodyElseSweeps() throws IOException, PosixException {
        scan(true);
        send("guest", "one");
        assertEquals(List.of("one"), scan(true));
        Files.setPosixFilePermissions(claim(1, "left"), PosixFilePermissions.fromString("r--------"));
        Path sweeper = claim(2, "sweeps");
        InboundLane lane = lanes.of(NodeId.of("guest"));
        for (long end = System.nanoTime() + 100_000_000; System.nanoTime() < end; ) {
            scan(true);
            assertFalse(lane.isClosed());
        }
        Files.delete(sweeper);
        awaitEnd("guest");
        assertFalse(Files.exists(root.path().resolve("billing/inbox/guest")));
        assertTrue(Files.exists(root.path().resolve("billing/inbox")));
        assertEquals(List.of(), scan(true));
    }

    /** L-26: however many there are, few are in memory while they wait for their turn. */
    @Test
    void theLanesOfSendersThatAreGoneDoNotRest() throws PosixException {
        scan(true);
        List<InboundLane> opened = new ArrayList<>();
        for (int n = 0; n < 2 * FEW; n++) {
            send("sender" + n, "one");
            scan(false);
            opened.add(lanes.of(NodeId.of("sender" + n)));
        }
        assertEquals(FEW, opened.stream().filter(InboundLane::isClosed).count());
    }

    @Test
    void aLaneThatHoldsFilesOpenIsLetGoAsWell() throws IOException, PosixException {
        scan(true);
        send("guest", "one");
        assertEquals(List.of("one"), scan(true));
        awaitEnd("guest");
        assertEquals(List.of(), filesOf("guest"));
        assertTrue(Files.exists(root.path().resolve("billing/inbox/guest")));
    }

    @Test
    void aScanOfEverythingReadsThoseTooThatHadTheirTurn() throws PosixException {
        scan(true);
        int many = Limits.LANES_AT_REST_A_SCAN + FEW;
        for (int n = 0; n < many; n++) {
            send("sender" + n, "one");
        }
        List<String> first = scan(false);
        assertEquals(Limits.LANES_AT_REST_A_SCAN, first.size());
        for (int n = 0; n < many; n++) {
            send("sender" + n, "two");
        }
        assertEquals(2 * many - first.size(), scan(true).size());
    }

    @Test
    void lanesAtRestAreReadInTurn() throws PosixException {
        scan(true);
        int many = 2 * Limits.LANES_AT_REST_A_SCAN + FEW;
        for (int n = 0; n < many; n++) {
            send("sender" + n, "one");
        }
        int read = 0;
        for (int look = 0; look < 3; look++) {
            read += scan(false).size();
        }
        assertEquals(many, read);
    }
}
