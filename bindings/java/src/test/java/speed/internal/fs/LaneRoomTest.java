package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.Node;
import speed.errors.StorageException;
import speed.internal.wire.Cursor;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.internal.wire.Names.LaneFile;
import speed.tool.BenchRoot;

/** L-5 to L-7, L-17: when a sender has room, how it gets some, and what a flush that cannot begin is. */
@Timeout(300)
class LaneRoomTest extends OneLane {
    private static final LaneWriter.WriteOptions RENAMES = new LaneWriter.WriteOptions(1 << 26, true, false);
    private static final LaneWriter.WriteOptions NARROW = new LaneWriter.WriteOptions(120, false, false);

    @Test
    void aLaneWithAsManySegmentsAsOneMayHaveHasNoRoom() throws IOException {
        Files.createDirectories(lane());
        for (int number = 1; number < Limits.MAX_LANE_SEGMENTS; number++) {
            Files.createFile(lane().resolve(Names.laneFileName(1, number)));
        }
        Sender sender = new Sender(1, RENAMES);
        assertTrue(sender.writer.hasRoom(1));
        sender.send("the last");
        assertFalse(sender.writer.hasRoom(1));
        Cursor first = new Cursor(1, new LaneFile(1, 2), 0, 0, List.of(), false, false);
        Files.write(lane().resolve("cursor.000001"), first.encode(mac));
        assertTrue(sender.writer.hasRoom(1));
    }

    /** L-17: a torn rest is passed, and its bytes are free, only once its file has a successor. */
    @Test
    void aSenderThatFindsNoRoomBeginsTheNextSegmentBeforeItWaits() throws IOException {
        Sender torn = new Sender(1);
        torn.send("one");
        append("000001-00000001", Files.readAllBytes(file("000001-00000001")));
        byte[] bytes = Files.readAllBytes(file("000001-00000001"));
        Files.write(file("000001-00000001"), java.util.Arrays.copyOf(bytes, bytes.length - 50));
        torn.writer.close();
        LaneReader reader = inbox(1).lane("analytics");
        read(reader).forEach(one -> reader.finish(one.token()));
        reader.commit();
        LaneWriter waiting = new Sender(1, NARROW).writer;
        assertFalse(waiting.hasRoom(107));
        assertFalse(waiting.hasRoom(107));
        assertFalse(Files.exists(file("000001-00000003")));
        read(reader);
        read(reader);
        assertEquals(1L, counts(reader).get("torn_tails"));
        assertTrue(waiting.hasRoom(107));
    }

    @Test
    void aSenderThatRenamesBeginsNothingBeforeItWaits() throws IOException {
        Sender sender = new Sender(1, new LaneWriter.WriteOptions(120, true, false));
        sender.send("one");
        assertFalse(sender.writer.hasRoom(107));
        assertFalse(Files.exists(file("000001-00000002")));
    }

    /** The listing has the third and lacks the second, as one that was cut at its bound may. */
    @Test
    void aSegmentOfThePositionThatAListingLacksIsNotPassedOver() throws IOException {
        Sender sender = new Sender(1, RENAMES);
        List.of("one", "two", "three").forEach(sender::send);
        Files.delete(file("000001-00000001"));
        Files.move(file("000001-00000002"), root.resolve("unlisted"));
        Cursor pastTheFirst = new Cursor(1, new LaneFile(1, 2), 0, 0, List.of(), true, false);
        Files.write(lane().resolve("cursor.000001"), pastTheFirst.encode(mac));
        LaneReader reader = inbox(2).lane("analytics");
        Files.move(root.resolve("unlisted"), file("000001-00000002"));
        List<Received> received =
                reader.read(ALL, 1 << 24, System.nanoTime(), false).received();
        assertEquals(List.of("two", "three"), texts(received));
    }

    /** The envelope is in the lane, and who sent it knows that it may not survive a power cut. */
    @Test
    void aFlushThatCannotBeginIsReportedToWhoWaitsForIt() throws IOException {
        try (BenchRoot disk = new BenchRoot("target");
                Node receiver = disk.node("receiver", "sender");
                Node sender = disk.builder("sender").durable().open()) {
            sender.send(receiver.name(), 1);
            FailingCall.during("fcntl", PosixException.EMFILE, () -> {
                StorageException failure = assertThrows(StorageException.class, () -> sender.send(receiver.name(), 2));
                assertTrue(failure.getMessage().contains("may not survive a power cut"), failure.getMessage());
            });
            sender.send(receiver.name(), 3);
        }
    }
}
