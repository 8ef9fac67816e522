package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.LeaseLostException;
import speed.internal.core.LaneProgress.Position;
import speed.internal.wire.Contract;
import speed.internal.wire.Cursor;
import speed.internal.wire.Json;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.NodeId;
import speed.internal.wire.SlotPieces;

/** L-12 to L-18: what every receiver makes of a lane that it finds. */
class LaneVectorsTest {
    private static final int ALL = 1000;

    private final Contract vectors = Contract.vectors("lanes");
    private final String source = vectors.text("source");
    private final String target = vectors.text("target");
    private final Keyring ring = new Keyring(List.of(vectors.bytes("key")));
    private final LaneMac mac = new LaneMac(ring, NodeId.of(source), NodeId.of(target));
    private int cases;

    @TempDir
    Path home;

    @TestFactory
    Stream<DynamicTest> aReceiverGoesOnWhereTheContractSays() {
        return vectors.each("cases", one -> {
            try {
                check(one);
            } catch (IOException failure) {
                throw new AssertionError(failure);
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> aReceiverThatWasReplacedDoesNotBegin() {
        return vectors.each("replaced", one -> assertThrows(LeaseLostException.class, () -> open(lay(one), one)));
    }

    /** S-8: a lane that failed is opened again by the same process. */
    @TestFactory
    Stream<DynamicTest> aReceiverTellsWhichCallsItMayHaveRun() {
        return vectors.each("requests", one -> {
            LaneReader reader = open(lay(one), one);
            List<Map<String, Object>> requests = new ArrayList<>();
            LaneReader.Batch batch;
            do {
                batch = reader.read(ALL, 1 << 24, System.nanoTime(), false);
                for (Received each : batch.received()) {
                    requests.add(Map.of(
                            "sequence",
                            "%016x".formatted(each.header().sequence()),
                            "redelivered",
                            each.redelivered(),
                            "may_have_run",
                            each.uncertain()));
                }
            } while (batch.more());
            assertEquals(one.get("requests"), requests);
            reader.abandon();
        });
    }

    /** L-6. */
    @TestFactory
    Stream<DynamicTest> aSenderFindsTheRoomThatTheContractLeaves() {
        return Contract.vectors("sending").each("rooms", one -> {
            Path root = Files.createDirectory(home.resolve(Integer.toString(++cases)));
            Files.createDirectories(lane(root));
            for (Map.Entry<?, ?> file : one.object("files").values().entrySet()) {
                byte[] content = file.getValue() instanceof Long size
                        ? new byte[size.intValue()]
                        : HexFormat.of().parseHex((String) file.getValue());
                Files.write(lane(root).resolve((String) file.getKey()), content);
            }
            LaneWriter.WriteOptions manner = new LaneWriter.WriteOptions(one.number("window"), false, false);
            LaneWriter writer = new LaneWriter(root.toString(), source, target, 3, mac, manner);
            assertEquals(one.get("room"), writer.hasRoom(one.number("size")));
            writer.close();
        });
    }

    /** L-29. Sizes that are powers of two tell which slots are in use. */
    @TestFactory
    Stream<DynamicTest> aSenderUsesTheSlotsAgainThatTheReceiverIsDoneWith() {
        return Contract.vectors("sending").each("free", one -> {
            Path lane = Files.createDirectory(home.resolve(Integer.toString(++cases)));
            SlotWriter slots = new SlotWriter(1, false);
            List<?> free = (List<?>) one.get("free");
            long used = 0;
            try (Directory directory = Directory.open(lane.toString())) {
                for (Object row : (List<?>) one.get("slots")) {
                    List<?> stated = (List<?>) row;
                    SlotPieces pieces = new SlotPieces(new byte[32], 256 << (long) stated.get(0));
                    try (SlotWriter.Slot slot = slots.take(directory, pieces.slotBytes(), 1 << 20)) {
                        assertEquals(stated.get(0), (long) slot.number());
                        LaneFile file =
                                new LaneFile(((Long) stated.get(1)).intValue(), ((Long) stated.get(2)).intValue());
                        long sequence = HexFormat.fromHexDigitsToLong((String) stated.get(4));
                        slots.use(slot, sequence, new Position(file, (Long) stated.get(3)));
                    }
                    used += free.contains(stated.get(0)) ? 0 : pieces.slotBytes();
                }
            }
            slots.commit(Cursor.decode(HexFormat.of().parseHex(one.text("cursor")), mac));
            assertEquals(used, slots.bytes());
        });
    }

    private void check(Contract stated) throws IOException {
        Path root = lay(stated);
        LaneReader reader = open(root, stated);
        assertEquals(stated.get("dispatched"), take(reader, (List<?>) stated.get("finished")));
        Path lane = lane(root);
        String own = "cursor.%06d".formatted(stated.number("generation"));
        assertEquals(cursor(stated.object("cursor")), Cursor.decode(Files.readAllBytes(lane.resolve(own)), mac));
        assertEquals(stated.get("left"), namesIn(lane));
        assertEquals(stated.get("quarantine"), reasonsIn(root.resolve(target).resolve("quarantine")));
        reader.abandon();
    }

    private Path lay(Contract stated) throws IOException {
        Path root = Files.createDirectory(home.resolve(Integer.toString(++cases)));
        new Registry(root.toString(), ring).prepare();
        lay(Files.createDirectories(lane(root)), stated.object("files"));
        if (stated.has("claims")) {
            lay(root.resolve("speed_registry/.claims"), stated.object("claims"));
        }
        return root;
    }

    private static void lay(Path directory, Contract files) throws IOException {
        for (Map.Entry<?, ?> file : files.values().entrySet()) {
            Files.write(
                    directory.resolve((String) file.getKey()), HexFormat.of().parseHex((String) file.getValue()));
        }
    }

    private Path lane(Path root) {
        return root.resolve(target).resolve("inbox").resolve(source);
    }

    private LaneReader open(Path root, Contract stated) throws PosixException {
        Inbox inbox = new Inbox(root.toString(), target, (int) stated.number("generation"), ring, false);
        inbox.prepare();
        return inbox.lane(source);
    }

    /** Reads to the end, scans twice, and finishes what is to be finished. */
    private static List<Map<String, Object>> take(LaneReader reader, List<?> finished) throws PosixException {
        List<Map<String, Object>> taken = new ArrayList<>();
        for (boolean isScan : new boolean[] {false, true, true}) {
            LaneReader.Batch batch;
            do {
                batch = reader.read(ALL, 1 << 24, System.nanoTime(), isScan);
                for (Received one : batch.received()) {
                    String sequence = "%016x".formatted(one.header().sequence());
                    taken.add(Map.of("sequence", sequence, "redelivered", one.redelivered()));
                    if (finished.contains(sequence)) {
                        reader.finish(one.token());
                        reader.commit();
                    }
                }
            } while (batch.more());
        }
        return taken;
    }

    private static Cursor cursor(Contract stated) {
        List<Cursor.Unfinished> unfinished = stated.cases("unfinished").stream()
                .map(one -> new Cursor.Unfinished(
                        one.sequence("sequence"), file(one, "generation"), one.number("offset"), (Boolean)
                                one.get("begun")))
                .toList();
        return new Cursor(
                (int) stated.number("receiver_generation"),
                file(stated, "sender_generation"),
                stated.number("offset"),
                stated.sequence("last_sequence"),
                unfinished,
                (Boolean) stated.get("clean"),
                (Boolean) stated.get("sealed"));
    }

    private static LaneFile file(Contract stated, String generation) {
        return new LaneFile((int) stated.number(generation), stated.number("segment"));
    }

    private static List<String> namesIn(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    private static List<Object> reasonsIn(Path directory) throws IOException {
        List<Object> reasons = new ArrayList<>();
        for (String name : namesIn(directory)) {
            if (name.endsWith(".reason")) {
                reasons.add(((Map<?, ?>) Json.parse(Files.readString(directory.resolve(name)))).get("reason"));
            }
        }
        return reasons;
    }
}
