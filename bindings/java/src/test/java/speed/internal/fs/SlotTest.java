package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import speed.errors.StorageException;
import speed.internal.wire.Block;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.Json;
import speed.internal.wire.Limits;
import speed.internal.wire.SlotPieces;
import speed.internal.wire.SlotPieces.SlotHead;

/** Payloads in slots, with real files: L-28 to L-30. */
@Timeout(300)
class SlotTest extends OneLane {
    private static final byte[] KEY = new byte[Limits.KEY_BYTES];
    private static final int SIZE = 2 * Limits.SLOT_PIECE_BYTES + 1000;
    private static final LaneWriter.WriteOptions DURABLE = new LaneWriter.WriteOptions(1 << 26, false, true);

    private final byte[] payload = new byte[SIZE];
    private final SlotPieces pieces = new SlotPieces(KEY, SIZE);
    private volatile boolean senderIsLive = true;

    {
        new Random(1).nextBytes(payload);
    }

    private LaneReader reader(int generation) throws PosixException {
        Inbox inbox = inbox(generation);
        inbox.judgeSenders((sender, ofGeneration) -> senderIsLive && sender.equals("analytics") && ofGeneration == 1);
        return inbox.lane("analytics");
    }

    private static List<Received> readRung(LaneReader reader) throws PosixException {
        return reader.read(ALL, 1 << 24, System.nanoTime(), false).received();
    }

    private Path slot(int number) {
        return lane().resolve("000001-%02d.slot".formatted(number));
    }

    /** What a slot holds of the payload. */
    private byte[] sealed() {
        byte[] slot = new byte[(int) pieces.slotBytes()];
        Block block = new Block(SlotPieces.SEALED_BYTES);
        for (int index = 0; index < pieces.count(); index++) {
            block.bytes.get(0, slot, (int) pieces.offset(index), pieces.seal(index, payload, block));
        }
        return slot;
    }

    /** Appends the envelope of the payload in the first slot. */
    private static void announce(Sender sender) {
        sender.send(EnvelopeType.MESSAGE, EnvelopeType.SLOTTED, new SlotHead(1, SIZE, KEY).encode());
    }

    /** Sends the payload as a link does; null if no slot is free. */
    private SlotWriter.Slot send(Sender sender) {
        try (SlotWriter.Slot slot = sender.writer.slot(pieces)) {
            if (slot != null) {
                Block block = new Block(200);
                int bytes = sender.seal(
                        block,
                        EnvelopeType.MESSAGE,
                        EnvelopeType.SLOTTED,
                        new SlotHead(slot.number(), SIZE, KEY).encode());
                sender.writer.append(slot, Sequence.of(1, sender.counter), block, bytes);
                sender.writer.write(slot, pieces, payload);
            }
            return slot;
        }
    }

    private static void finish(LaneReader reader, Received received) {
        reader.finish(received.token());
        reader.commit();
    }

    // --- reading ---

    @Test
    void aPayloadArrivesOnceItsLastPieceIsThere() throws IOException {
        Sender sender = new Sender(1);
        announce(sender);
        byte[] whole = sealed();
        byte[] begun = Arrays.copyOf(whole, whole.length);
        Arrays.fill(begun, (int) pieces.offset(2), begun.length, (byte) 0);
        Files.write(slot(1), begun);
        LaneReader reader = reader(1);
        assertEquals(List.of(), readRung(reader));
        assertEquals(List.of(), read(reader), "a scan waits as well, while the sender is live");
        assertFalse(reader.isIdle());
        Files.write(slot(1), whole);
        Received received = readRung(reader).get(0);
        assertArrayEquals(payload, received.payload());
        assertEquals(SIZE, received.header().payloadBytes());
        assertEquals(Map.of(), counts(reader));
    }

    @Test
    void whatFollowsComesAfterThePayload() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        assertNotNull(send(sender));
        sender.send("three");
        List<Received> received = readRung(reader(1));
        assertEquals(3, received.size());
        assertArrayEquals(payload, received.get(1).payload());
        assertEquals("three", texts(received).get(2));
    }

    @Test
    void aPayloadWhoseSenderDiedBetweenPiecesIsDropped() throws IOException {
        Sender sender = new Sender(1);
        announce(sender);
        byte[] begun = sealed();
        Arrays.fill(begun, (int) pieces.offset(1), begun.length, (byte) 0);
        Files.write(slot(1), begun);
        LaneReader reader = reader(1);
        senderIsLive = false;
        assertEquals(List.of(), readRung(reader));
        assertFalse(reader.isIdle(), "only a scan asks for the sender");
        assertEquals(List.of(), read(reader));
        assertTrue(reader.isIdle());
        assertEquals(Map.of("torn_slots", 1L), counts(reader));
        assertEquals(0, quarantined());
    }

    @Test
    void aSlotThatItsSenderCutIsDroppedAtOnce() throws IOException {
        Sender sender = new Sender(1);
        announce(sender);
        Files.write(slot(1), new byte[0]);
        LaneReader reader = reader(1);
        assertEquals(List.of(), readRung(reader));
        assertEquals(Map.of("torn_slots", 1L), counts(reader));
        sender.send("two");
        assertEquals(List.of("two"), texts(readRung(reader)));
    }

    /** Only ciphertext goes there. */
    @Test
    void anAlteredLastPieceGoesToQuarantineAndNothingOfThePayloadAnywhere() throws IOException {
        Sender sender = new Sender(1);
        announce(sender);
        sender.send("two");
        byte[] altered = sealed();
        altered[altered.length - 1] ^= 1;
        Files.write(slot(1), altered);
        LaneReader reader = reader(1);
        assertEquals(List.of("two"), texts(readRung(reader)));
        assertEquals(Map.of("damaged_bad_slot", 1L), counts(reader));
        byte[] last = Arrays.copyOfRange(altered, (int) pieces.offset(2), altered.length);
        assertArrayEquals(last, Files.readAllBytes(root.resolve("billing/quarantine/00000001")));
        Map<?, ?> note = (Map<?, ?>) Json.parse(Files.readString(root.resolve("billing/quarantine/00000001.reason")));
        assertEquals("BAD_SLOT", note.get("reason"));
        assertEquals("analytics 000001-01.slot", note.get("name"));
        assertEquals(pieces.offset(2), note.get("offset"));
    }

    @Test
    void aHeadThatIsNoneGoesToQuarantineAsItCame() throws IOException {
        Sender sender = new Sender(1);
        sender.send(EnvelopeType.MESSAGE, EnvelopeType.SLOTTED, new byte[5 << 20]);
        sender.send("two");
        byte[] came = Arrays.copyOf(Files.readAllBytes(file("000001-00000001")), Limits.MAX_QUARANTINED_BYTES);
        LaneReader reader = reader(1);
        assertEquals(List.of("two"), texts(readRung(reader)));
        assertEquals(Map.of("damaged_bad_slot", 1L), counts(reader));
        assertArrayEquals(came, Files.readAllBytes(root.resolve("billing/quarantine/00000001")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"link", "FIFO", "directory"})
    void whatStandsInPlaceOfASlotIsNotOpened(String what) throws IOException {
        Sender sender = new Sender(1);
        announce(sender);
        Path victim = Files.write(root.resolve("victim"), sealed());
        switch (what) {
            case "link" -> Files.createSymbolicLink(slot(1), victim);
            case "FIFO" -> Posix.makeFifo(slot(1).toString());
            default -> Files.createDirectory(slot(1));
        }
        LaneReader reader = reader(1);
        assertEquals(List.of(), readRung(reader));
        assertEquals(Map.of("torn_slots", 1L, "slots_refused", 1L), counts(reader));
        assertEquals(1, quarantined());
        assertArrayEquals(sealed(), Files.readAllBytes(victim));
        sender.send("two");
        assertEquals(List.of("two"), texts(readRung(reader)));
    }

    @Test
    void aSizeThatIsOnlyDeclaredCostsNoMemory() throws IOException {
        Sender sender = new Sender(1);
        sender.send(
                EnvelopeType.MESSAGE, EnvelopeType.SLOTTED, new SlotHead(1, Limits.MAX_PAYLOAD_BYTES, KEY).encode());
        Files.write(slot(1), sealed());
        LaneReader reader = reader(1);
        ThreadMXBean thread = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long before = thread.getCurrentThreadAllocatedBytes();
        assertEquals(List.of(), readRung(reader));
        assertTrue(thread.getCurrentThreadAllocatedBytes() - before < Limits.MAX_PAYLOAD_BYTES / 4);
        assertEquals(Map.of("torn_slots", 1L), counts(reader));
    }

    @Test
    void aPayloadThatWasUnfinishedComesAgainAndFirst() throws IOException {
        Sender sender = new Sender(1);
        assertNotNull(send(sender));
        sender.send("two");
        sender.send("three");
        LaneReader died = reader(1);
        finish(died, readRung(died).get(1));
        died.abandon();
        List<Received> again = readRung(reader(2));
        assertArrayEquals(payload, again.get(0).payload());
        assertTrue(again.get(0).redelivered());
        assertEquals(List.of("three"), texts(again.subList(1, 2)));
    }

    /** What follows a payload, or its sender's end, is no reason to give up what was written just before. */
    @Test
    void nothingIsLostWhileASenderWritesAsFastAsItCan() throws Exception {
        int count = 300;
        Files.createDirectories(lane());
        LaneReader reader = reader(1);
        FutureTask<Void> sending = new FutureTask<>(() -> {
            Sender sender = new Sender(1);
            for (int number = 0; number < count; number++) {
                if (send(sender) == null) {
                    Thread.yield();
                    sender.send("no slot");
                }
            }
            senderIsLive = false;
            return null;
        });
        new Thread(sending, "sending").start();
        int received = 0;
        while (received < count) {
            boolean isScan = received % 2 == 0;
            for (Received one :
                    reader.read(ALL, 1 << 20, System.nanoTime(), isScan).received()) {
                assertTrue(one.payload().length < 10 || Arrays.equals(payload, one.payload()));
                finish(reader, one);
                received++;
            }
        }
        sending.get(60, TimeUnit.SECONDS);
        assertEquals(Map.of(), counts(reader));
    }

    // --- writing ---

    @Test
    void aSlotIsUsedAgainOnceTheCursorHasPassedIt() throws IOException {
        Sender sender = new Sender(1);
        assertEquals(1, send(sender).number());
        assertEquals(2, send(sender).number());
        LaneReader reader = reader(1);
        List<Received> received = readRung(reader);
        finish(reader, received.get(1));
        assertEquals(2, send(sender).number(), "the first is listed as unfinished");
        finish(reader, received.get(0));
        assertEquals(1, send(sender).number());
        assertEquals(2, readRung(reader).size());
    }

    @Test
    void moreThanAllSlotsAreNotUsed() throws IOException {
        Sender sender = new Sender(1);
        for (int number = 1; number <= Limits.MAX_SLOTS; number++) {
            assertEquals(number, send(sender).number());
        }
        assertNull(send(sender));
        LaneReader reader = reader(1);
        finish(reader, readRung(reader).get(0));
        assertEquals(1, send(sender).number());
    }

    @Test
    void payloadsInSlotsCountForTheWindow() throws IOException {
        Sender sender = new Sender(1, new LaneWriter.WriteOptions(2 * SIZE, false, false));
        assertTrue(sender.writer.hasRoom(SIZE));
        assertNotNull(send(sender));
        assertFalse(sender.writer.hasRoom(SIZE));
        LaneReader reader = reader(1);
        finish(reader, readRung(reader).get(0));
        assertTrue(sender.writer.hasRoom(SIZE));
    }

    @Test
    void filesOfSlotsStayWithinTheWindowWhateverSizesCome() throws IOException {
        long window = 1 << 20;
        Sender sender = new Sender(1, new LaneWriter.WriteOptions(window, false, false));
        LaneReader reader = null;
        long most = 0;
        for (int size : new int[] {150_000, 900_000, 200_000, 400_000, 1_000_000, 131_072, 600_000, 300_000, 900_000}) {
            assertTrue(sender.writer.hasRoom(size));
            sendOf(sender, size);
            most = Math.max(most, bytesOfLane());
            reader = reader == null ? reader(1) : reader;
            finish(reader, readRung(reader).get(0));
        }
        assertTrue(most <= window, most + " bytes");
    }

    private void sendOf(Sender sender, int size) {
        SlotPieces sized = new SlotPieces(KEY, size);
        try (SlotWriter.Slot slot = sender.writer.slot(sized)) {
            Block block = new Block(200);
            int bytes = sender.seal(
                    block, EnvelopeType.MESSAGE, EnvelopeType.SLOTTED, new SlotHead(slot.number(), size, KEY).encode());
            sender.writer.append(slot, Sequence.of(1, sender.counter), block, bytes);
            sender.writer.write(slot, sized, new byte[size]);
        }
    }

    private long bytesOfLane() throws IOException {
        try (Stream<Path> files = Files.list(lane())) {
            return files.filter(file -> file.toString().matches(".*\\.(slot|lane)"))
                    .mapToLong(file -> file.toFile().length())
                    .sum();
        }
    }

    @Test
    void freeSlotsMakeRoomForWhatGoesIntoTheLaneItself() throws IOException {
        Sender sender = new Sender(1, new LaneWriter.WriteOptions(2 * SIZE, false, false));
        send(sender);
        LaneReader reader = reader(1);
        finish(reader, readRung(reader).get(0));
        assertTrue(sender.writer.hasRoom(SIZE));
        sender.send(EnvelopeType.MESSAGE, payload);
        assertFalse(Files.exists(slot(1)));
    }

    @Test
    void aFullDiskIsReportedBeforeAnythingIsSent() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        FailingCall.during(
                "posix_fallocate",
                PosixException.ENOSPC,
                () -> assertThrows(StorageException.class, () -> sender.writer.slot(pieces)));
        assertNotNull(send(sender));
        assertEquals(2, readRung(reader(1)).size());
    }

    @Test
    void aPayloadThatCannotBeWrittenIsReportedAndItsReaderDoesNotWait() throws IOException {
        Sender sender = new Sender(1);
        FailingCall.during(
                "pwrite", PosixException.EIO, () -> assertThrows(StorageException.class, () -> send(sender)));
        assertEquals(0, Files.size(slot(1)));
        LaneReader reader = reader(1);
        assertEquals(List.of(), readRung(reader));
        assertEquals(Map.of("torn_slots", 1L), counts(reader));
        assertEquals(1, send(sender).number());
        assertArrayEquals(payload, readRung(reader).get(0).payload());
    }

    @Test
    void aSlotThatIsNotUsedAnyMoreIsRemoved() throws IOException {
        Sender sender = new Sender(1);
        send(sender);
        send(sender);
        LaneReader reader = reader(1);
        finish(reader, readRung(reader).get(0));
        sender.writer.releaseSlots(Long.MAX_VALUE);
        assertTrue(Files.exists(slot(1)), "it was used of late");
        sender.writer.close();
        sender.writer.releaseSlots(0);
        assertFalse(Files.exists(slot(1)));
        assertTrue(Files.exists(slot(2)), "its payload is not finished");
        assertEquals(1, send(sender).number());
    }

    @Test
    void aSlotThatIsGoneIsMadeAgainAndOneOfOthersIsLeftAlone() throws IOException {
        Sender sender = new Sender(1);
        LaneReader reader = null;
        for (int round = 0; round < 2; round++) {
            assertEquals(1, send(sender).number());
            reader = reader == null ? reader(1) : reader;
            finish(reader, readRung(reader).get(0));
            Files.delete(slot(1));
        }
        Files.createSymbolicLink(slot(1), root.resolve("victim"));
        assertEquals(2, send(sender).number());
        assertFalse(Files.exists(root.resolve("victim")));
    }

    @Test
    void anotherLaneDirectoryHasSlotsOfItsOwn() throws IOException {
        Sender sender = new Sender(1);
        send(sender);
        Files.move(lane(), root.resolve("aside"));
        sender.writer.close();
        assertEquals(1, send(sender).number());
        assertArrayEquals(payload, readRung(reader(1)).get(0).payload());
    }

    /** L-7 */
    @Test
    void aSlotIsFlushedBeforeItsEnvelopeAndHeldOpenNoLonger() throws IOException {
        Sender sender = new Sender(1, DURABLE);
        int before = OpenFiles.below(root).size();
        send(sender);
        try (HeldFlushes flushes = new HeldFlushes()) {
            flushes.release(3);
            sender.writer.beginFlush().run();
            assertEquals(2, flushes.count());
            sender.writer.close();
        }
        assertEquals(before, OpenFiles.below(root).size());
        send(sender);
        FailingCall.during("fdatasync", PosixException.EIO, sender.writer::close);
        assertTrue(sender.writer.failedFlushes() > 0, "who goes to rest flushes slots as well");
        assertEquals(before, OpenFiles.below(root).size());
    }

    @Test
    void slotsOfAnEarlierLifeGoWithIt() throws IOException {
        Sender sender = new Sender(1);
        send(sender);
        Sender later = new Sender(2);
        later.send("two");
        LaneReader reader = reader(1);
        List<Received> received = readRung(reader);
        finish(reader, received.get(1));
        assertTrue(Files.exists(slot(1)), "it is not finished");
        finish(reader, received.get(0));
        assertFalse(Files.exists(slot(1)));
    }
}
