package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import speed.errors.StorageException;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Names;

/** L-5, L-7, L-14 to L-18: what a failing filesystem or a hostile neighbour does to a lane costs nothing else. */
class LaneFaultsTest extends OneLane {
    private static final LaneWriter.WriteOptions DURABLE = new LaneWriter.WriteOptions(1 << 26, false, true);
    private static final LaneWriter.WriteOptions RENAMES = new LaneWriter.WriteOptions(1 << 26, true, false);

    private static void refused(String what, Runnable send) {
        StorageException error = assertThrows(StorageException.class, send::run);
        assertTrue(error.getMessage().contains(what), error.getMessage());
    }

    // --- the sender ---

    @Test
    void aFullFilesystemIsANamedErrorAndTheNextSegmentBegins() throws PosixException {
        Sender sender = new Sender(1);
        sender.send("one");
        FailingCall.during(
                "write", PosixException.ENOSPC, () -> refused("the filesystem is full", () -> sender.send("lost")));
        sender.counter--;
        sender.send("two");
        assertTrue(Files.exists(file("000001-00000002")));
        assertEquals(List.of("one", "two"), texts(read(inbox(1).lane("analytics"))));
    }

    @Test
    void aSegmentInWhichNothingWasWrittenIsUsedAgain() throws PosixException {
        Sender sender = new Sender(1);
        FailingCall.during("write", PosixException.EDQUOT, () -> refused("quota", () -> sender.send("lost")));
        sender.counter--;
        sender.send("one");
        assertFalse(Files.exists(file("000001-00000002")));
    }

    @Test
    void aSegmentThatIsThereIsPassedAndALaneThatIsGoneIsAnError() throws IOException {
        Files.createDirectories(Path.of(Names.registryDirectory(root.toString())));
        Sender sender = new Sender(1);
        sender.writer.hasRoom(1);
        Files.createFile(file("000001-00000001"));
        sender.send("one");
        assertTrue(Files.size(file("000001-00000002")) > 0);
        Sender late = new Sender(2);
        late.writer.hasRoom(1);
        Files.delete(file("000001-00000001"));
        Files.delete(file("000001-00000002"));
        Files.delete(lane());
        refused("cannot write", () -> late.send("two"));
        late.send("three");
        assertTrue(Files.exists(file("000002-00000001")));
    }

    /** L-2: its sender goes on in a new one. */
    @Test
    void aReaderSaysThatItsLaneWasRemovedAndTheNextOneGoesOn() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("one"), texts(read(reader)));
        Files.move(lane(), root.resolve("aside"));
        sender.writer.close();
        sender.send("two");
        assertTrue(assertThrows(PosixException.class, () -> read(reader)).is(PosixException.ENOENT));
        assertEquals(List.of("two"), texts(read(inbox(1).lane("analytics"))));
    }

    @Test
    void aBatchThatCannotBeRenamedLeavesNothing() throws IOException {
        Sender sender = new Sender(1, RENAMES);
        FailingCall.during(
                "renameat", PosixException.EACCES, () -> refused("belongs to another user", () -> sender.send("lost")));
        try (var files = Files.list(lane())) {
            assertEquals(0, files.count());
        }
    }

    /** L-7: who appended to a file is told when its flush failed, at the latest by the next flush. */
    @Test
    void aSegmentThatIsLeftUnflushedIsCounted() throws PosixException {
        Sender sender = new Sender(1, DURABLE);
        sender.send("one");
        FailingCall.during("fdatasync", PosixException.ENOSPC, () -> sender.writer.close());
        assertEquals(1, sender.writer.failedFlushes());
        assertTrue(sender.writer.flushRefused().getMessage().contains("may not survive a power cut"));
    }

    @Test
    void anInboxThatCannotBeListedOrLookedAtIsANamedErrorOrNoRoom() throws PosixException {
        Sender sender = new Sender(1, new LaneWriter.WriteOptions(10, false, false));
        sender.send("one");
        FailingCall.during("getdents64", PosixException.EACCES, () -> assertFalse(sender.writer.hasRoom(100)));
        sender.writer.close();
        FailingCall.during(
                "getdents64", PosixException.EMFILE, () -> refused("too many open files", () -> sender.send("two")));
        Sender other = new Sender(2);
        FailingCall.during("statx", PosixException.EACCES, () -> refused("another user", () -> other.send("three")));
    }

    @Test
    void aLaneDirectoryOfAnotherUserIsNotWrittenTo() throws IOException {
        Files.createDirectories(lane());
        if (Posix.uid() != 0) {
            return; // only root can make the directory of somebody else
        }
        Files.setAttribute(lane(), "unix:uid", 12345);
        refused("user 12345", () -> new Sender(1).send("one"));
    }

    @Test
    void whatIsNoSegmentDoesNotCountForTheWindow() throws IOException {
        Files.createDirectories(lane());
        Files.createDirectory(file("000001-00000007"));
        Sender narrow = new Sender(1, new LaneWriter.WriteOptions(10, false, false));
        assertTrue(narrow.writer.hasRoom(1_000));
        narrow.send("one");
        assertTrue(Files.exists(file("000001-00000008")));
    }

    // --- the receiver ---

    @Test
    void aCursorThatCannotBeWrittenIsCountedAndWrittenByTheNextScan() throws PosixException {
        Sender sender = new Sender(1);
        sender.send("one");
        LaneReader reader = inbox(1).lane("analytics");
        List<Received> received = read(reader);
        FailingCall.during("pwrite", PosixException.ENOSPC, () -> {
            reader.finish(received.get(0).token());
            reader.commit();
        });
        assertEquals(1L, counts(reader).get("commits_failed"));
        read(reader);
        reader.abandon();
        assertEquals(List.of(), read(inbox(2).lane("analytics")));
    }

    /** L-17: space is what is missing, and removing a file frees some. */
    @Test
    void withoutSpaceForACursorPassedSegmentsAreRemovedAllTheSame() throws PosixException {
        Sender sender = new Sender(1);
        sender.send("one");
        sender.writer.close();
        sender.send("two");
        LaneReader reader = inbox(1).lane("analytics");
        List<Received> received = read(reader);
        FailingCall.during("pwrite", PosixException.ENOSPC, () -> {
            reader.finish(received.get(0).token());
            reader.commit();
            assertTrue(Files.exists(file("000001-00000001")));
            reader.finish(received.get(1).token());
            reader.commit();
        });
        assertFalse(Files.exists(file("000001-00000001")));
    }

    @Test
    void aLaneWithoutSpaceForItsFirstCursorIsReadAllTheSame() throws PosixException {
        new Sender(1).send("one");
        inbox(1).lane("analytics").close();
        Inbox inbox = inbox(2);
        List<LaneReader> opened = new ArrayList<>();
        FailingCall.during("write", PosixException.ENOSPC, () -> opened.add(inbox.lane("analytics")));
        LaneReader reader = opened.get(0);
        assertEquals(1L, counts(reader).get("commits_failed"));
        assertTrue(Files.exists(lane().resolve("cursor.000001")));
        assertEquals(List.of("one"), texts(read(reader)));
    }

    @Test
    void finishedLazilyAnEnvelopeIsCommittedAfterAMebibyte() throws PosixException {
        Sender sender = new Sender(1);
        sender.send(EnvelopeType.MESSAGE, new byte[1 << 20]);
        sender.send("two");
        LaneReader reader = inbox(1).lane("analytics");
        List<Received> received = read(reader);
        received.forEach(one -> reader.finishLazily(one.token()));
        reader.abandon();
        assertEquals(List.of("two"), texts(read(inbox(2).lane("analytics"))));
    }

    /** L-15: a cursor may list what is there no more, or other bytes than were there. */
    @Test
    void whatWasUnfinishedAndIsGoneIsCounted() throws IOException {
        Sender sender = new Sender(1);
        List.of("one", "two", "three", "four").forEach(sender::send);
        LaneReader died = inbox(1).lane("analytics");
        List<Received> received = read(died);
        died.finish(received.get(3).token());
        died.commit();
        died.abandon();
        byte[] bytes = Files.readAllBytes(file("000001-00000001"));
        int size = bytes.length / 4;
        System.arraycopy(bytes, 0, bytes, size, 107); // "one" where "two" was
        bytes[2 * size + 90] ^= 1;
        Files.write(file("000001-00000001"), bytes);
        LaneReader successor = inbox(2).lane("analytics");
        assertEquals(List.of("one"), texts(read(successor)));
        assertEquals(2L, counts(successor).get("redeliveries_lost"));
        successor.abandon();
        Files.delete(file("000001-00000001"));
        LaneReader last = inbox(3).lane("analytics");
        assertEquals(List.of(), read(last));
        assertEquals(1L, counts(last).get("redeliveries_lost"));
    }

    @Test
    void aLargeEnvelopeIsRedeliveredWholeAndNoMoreIsTakenThanRequested() throws PosixException {
        Sender sender = new Sender(1);
        sender.send(EnvelopeType.SPC_REQUEST, new byte[700_000]);
        sender.send("two");
        sender.send("three");
        LaneReader died = inbox(1).lane("analytics");
        died.finish(read(died).get(2).token());
        died.commit();
        died.abandon();
        LaneReader successor = inbox(2).lane("analytics");
        LaneReader.Batch first = successor.read(ALL, 1000, System.nanoTime(), false);
        assertEquals(700_000, first.received().get(0).payload().length);
        assertEquals(1, first.received().size());
        assertEquals(
                List.of("two"),
                texts(successor.read(1, 1 << 20, System.nanoTime(), false).received()));
    }

    @Test
    void aDamagedCursorIsCountedAndAllThatLiesThereIsMarked() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        LaneReader died = inbox(1).lane("analytics");
        read(died).forEach(one -> died.finish(one.token()));
        died.commit();
        died.abandon();
        Files.write(lane().resolve("cursor.000001"), new byte[100]);
        LaneReader successor = inbox(2).lane("analytics");
        List<Received> received = read(successor);
        assertTrue(received.get(0).redelivered());
        assertEquals(1L, counts(successor).get("cursors_damaged"));
    }

    /** A cursor of this very generation: the lane failed and is opened again, with any number in hand. */
    @Test
    void aLaneThatIsOpenedAgainByItsReaderMarksWhatMayBeInHand() throws PosixException {
        Sender sender = new Sender(1);
        sender.send("one");
        sender.send("two");
        LaneReader failed = inbox(1).lane("analytics");
        read(failed);
        failed.abandon();
        List<Received> again = read(inbox(1).lane("analytics"));
        assertTrue(again.stream().allMatch(Received::redelivered), again::toString);
        assertEquals(List.of("one", "two"), texts(again));
    }

    @Test
    void aForgedFenceIsCountedAndIgnored() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        Files.write(lane().resolve(Names.fenceName(2)), new byte[60]);
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("one"), texts(read(reader)));
        long forged = (Long) counts(reader).get("fences_damaged");
        assertTrue(forged > 0);
        Files.delete(lane().resolve(Names.fenceName(2)));
        Fences.set(root.toString(), "analytics", 3, ring);
        Files.copy(lane().resolve(Names.fenceName(3)), lane().resolve(Names.fenceName(4)));
        assertEquals(List.of(), read(reader));
        assertTrue((Long) counts(reader).get("fences_damaged") > forged); // under another name it is none
    }

    /** L-18: what an older generation left counts; links and directories under a file's name do not. */
    @Test
    void aFenceStandsAfterTheLastSegmentThatIsOne() throws IOException {
        Sender old = new Sender(1);
        old.send("by right");
        Files.createDirectory(file("000001-00000002"));
        Fences.set(root.toString(), "analytics", 2, ring);
        Fences.set(root.toString(), "analytics", 3, ring);
        old.send("too late");
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("by right"), texts(read(reader)));
        Fences.set(root.toString(), "nobody", 2, ring);
        assertFalse(Files.exists(root.resolve("billing/inbox/nobody")));
    }

    @Test
    void aSegmentLargerThanAnyIsRefusedUnread() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        try (FileChannel hole =
                FileChannel.open(file("000001-00000002"), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            hole.write(java.nio.ByteBuffer.wrap(new byte[1]), 1L << 40);
        }
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("one"), texts(read(reader)));
        read(reader);
        assertEquals(1L, counts(reader).get("segments_refused"));
        assertFalse(Files.exists(file("000001-00000002")));
    }

    @Test
    void aLyingLengthHoldsUpTheLaneOnlyUntilTheNextScan() throws IOException {
        Sender sender = new Sender(1);
        sender.send("x".repeat(200));
        byte[] liar = Files.readAllBytes(file("000001-00000001"));
        liar[28] = 2; // says 32 MiB
        Files.write(file("000001-00000001"), liar);
        sender.send("two");
        LaneReader reader = inbox(1).lane("analytics");
        long now = System.nanoTime();
        assertEquals(List.of(), reader.read(ALL, 1 << 24, now, false).received());
        assertEquals(List.of(), reader.read(ALL, 1 << 24, now, false).received());
        assertEquals(List.of("two"), texts(read(reader)));
    }

    @Test
    void aLinkInPlaceOfASegmentIsNoSegment() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        sender.writer.close();
        sender.send("two");
        LaneReader reader = inbox(1).lane("analytics");
        Files.move(file("000001-00000001"), root.resolve("elsewhere"));
        Files.createSymbolicLink(file("000001-00000001"), root.resolve("elsewhere"));
        assertEquals(List.of(), texts(read(reader)));
        assertEquals(List.of("two"), texts(read(reader)));
        assertEquals("one".length() + 104, Files.size(root.resolve("elsewhere")));
    }
}
