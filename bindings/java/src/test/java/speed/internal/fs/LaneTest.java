package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import speed.errors.LeaseLostException;
import speed.errors.StorageException;
import speed.internal.wire.Block;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.LinkSealer;

/** The lane analytics to billing, with real files: L-2 to L-21. */
class LaneTest extends OneLane {
    @Test
    void envelopesArriveInOrderAndWhole() throws PosixException {
        Sender sender = new Sender(1);
        List<String> sent = new ArrayList<>();
        for (int n = 0; n < 300; n++) {
            sent.add("message " + n);
            sender.send("message " + n);
        }
        sender.send(EnvelopeType.MESSAGE, new byte[300_000]);
        List<Received> received = read(inbox(1).lane("analytics"));
        assertEquals(sent, texts(received.subList(0, 300)));
        assertEquals(300_000, received.get(300).payload().length);
    }

    @Test
    void damageIsPassedKeptAndCounted() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        append("000001-00000001", "rubbish".repeat(40).getBytes(StandardCharsets.UTF_8));
        sender.send("two");
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("one", "two"), texts(read(reader)));
        assertEquals(1L, counts(reader).get("damaged_bad_version"));
        assertEquals(1, quarantined());
    }

    @Test
    void aRepeatedEnvelopeIsADuplicate() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        append("000001-00000001", Files.readAllBytes(file("000001-00000001")));
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("one"), texts(read(reader)));
        assertEquals(1L, counts(reader).get("duplicates"));
    }

    @Test
    void aMissingEnvelopeIsAGap() throws PosixException {
        Sender sender = new Sender(1);
        sender.send("one");
        sender.counter++;
        sender.send("three");
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("one", "three"), texts(read(reader)));
        assertEquals(1L, counts(reader).get("gaps"));
    }

    /** L-16, L-17: a torn tail is waited for, and dropped once the file has a successor. */
    @Test
    void aTornTailIsDroppedWhenTheSegmentEnds() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        byte[] whole = Files.readAllBytes(file("000001-00000001"));
        append("000001-00000001", java.util.Arrays.copyOf(whole, whole.length - 5));
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("one"), texts(read(reader)));
        sender.writer.close();
        sender.send("two");
        assertEquals(List.of("two"), texts(read(reader)));
        assertEquals(1L, counts(reader).get("torn_tails"));
    }

    /** L-18: what an owner writes after its name changed hands is rejected. */
    @Test
    void whatStandsAfterAFenceIsRejected() throws PosixException {
        Sender old = new Sender(1);
        old.send("by right");
        Fences.set(root.toString(), "analytics", 2, ring);
        old.send("too late");
        Sender heir = new Sender(2);
        heir.send("heir");
        LaneReader reader = inbox(1).lane("analytics");
        assertEquals(List.of("by right", "heir"), texts(read(reader)));
        assertEquals(1L, counts(reader).get("rejected_behind_fence"));
    }

    /** L-18: the reader is behind the fence long before the cursor is. */
    @Test
    void aFenceStaysWhileACrashCanLeadBackBeforeIt() throws PosixException {
        Sender old = new Sender(1);
        old.send("by right");
        Fences.set(root.toString(), "analytics", 2, ring);
        Sender heir = new Sender(2);
        heir.send("heir");
        LaneReader died = inbox(1).lane("analytics");
        assertEquals(List.of("by right", "heir"), texts(read(died)));
        read(died);
        died.abandon();
        old.send("too late");
        LaneReader successor = inbox(2).lane("analytics");
        List<Received> received = read(successor);
        assertEquals(List.of("by right", "heir"), texts(received));
        assertEquals(1L, counts(successor).get("rejected_behind_fence"));
        received.forEach(one -> successor.finish(one.token()));
        successor.commit();
        read(successor);
        assertFalse(Files.exists(lane().resolve("000002.fence")));
    }

    /** L-15: what was unfinished comes again and is marked; what was finished does not. */
    @Test
    void aSuccessorRedeliversWhatWasUnfinished() throws PosixException {
        Sender sender = new Sender(1);
        for (String text : List.of("one", "two", "three")) {
            sender.send(text);
        }
        LaneReader first = inbox(1).lane("analytics");
        List<Received> received = read(first);
        first.finish(received.get(0).token());
        first.finish(received.get(2).token());
        first.commit();
        first.abandon();
        sender.send("four");
        List<Received> again = read(inbox(2).lane("analytics"));
        assertEquals(List.of("two", "four"), texts(again));
        assertTrue(again.get(0).redelivered());
    }

    /** L-15, G-14: while a payload is put together, a message behind it may be handled. */
    @Test
    void segmentsAndTheFirstMessageThatMayHavePassedThemAreMarked() throws PosixException {
        Sender sender = new Sender(1);
        for (String text : List.of("one", "two")) {
            sender.send(EnvelopeType.MESSAGE, EnvelopeType.SEGMENT, text.getBytes(StandardCharsets.UTF_8));
        }
        sender.send("passes");
        sender.send("waits");
        LaneReader first = inbox(1).lane("analytics");
        read(first);
        first.abandon();
        List<Boolean> marked = read(inbox(2).lane("analytics")).stream()
                .map(Received::redelivered)
                .toList();
        assertEquals(List.of(true, true, true, false), marked);
    }

    @Test
    void aCleanlyClosedLaneRedeliversNothing() throws PosixException {
        Sender sender = new Sender(1);
        sender.send("one");
        LaneReader first = inbox(1).lane("analytics");
        read(first).forEach(one -> first.finish(one.token()));
        first.close();
        sender.send("two");
        List<Received> received = read(inbox(2).lane("analytics"));
        assertEquals(List.of("two"), texts(received));
        assertFalse(received.get(0).redelivered());
    }

    @Test
    void aReplacedReceiverStops() throws PosixException {
        new Sender(1).send("one");
        inbox(2).lane("analytics").close();
        assertThrows(LeaseLostException.class, () -> inbox(1).lane("analytics"));
    }

    @Test
    void aPassedSegmentIsRemoved() throws PosixException {
        Sender sender = new Sender(1);
        sender.send("one");
        sender.writer.close();
        sender.send("two");
        LaneReader reader = inbox(1).lane("analytics");
        read(reader).forEach(one -> reader.finish(one.token()));
        reader.commit();
        assertFalse(Files.exists(file("000001-00000001")));
        assertTrue(Files.exists(file("000001-00000002")));
    }

    /** L-10: links and FIFOs are neither followed nor opened for good; they go to quarantine. */
    @Test
    void whatIsNoRegularFileIsPutAside() throws IOException {
        new Sender(1).send("one");
        Files.createSymbolicLink(file("000001-00000002"), Path.of("/etc/passwd"));
        Posix.makeFifo(file("000001-00000003").toString());
        Files.writeString(lane().resolve("notes.txt"), "foreign");
        LaneReader reader = inbox(1).lane("analytics");
        List<String> all = new ArrayList<>();
        for (int scan = 0; scan < 4; scan++) {
            all.addAll(texts(read(reader)));
        }
        assertEquals(List.of("one"), all);
        assertEquals(3, quarantined());
        assertTrue(Files.exists(Path.of("/etc/passwd")));
    }

    @Test
    void foreignThingsInTheInboxArePutAside() throws IOException {
        Inbox inbox = inbox(1);
        new Sender(1).send("one");
        Files.writeString(root.resolve("billing/inbox/file"), "foreign");
        Files.createDirectory(root.resolve("billing/inbox/näme"));
        assertEquals(Set.of("analytics"), inbox.scan(name -> false));
        assertEquals(2, quarantined());
    }

    /** L-2: a lane that was put aside is begun anew; L-5: without an inbox the sender is told. */
    @Test
    void aLaneThatWasPutAsideIsBegunAnew() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        Files.move(lane(), root.resolve("aside"));
        sender.writer.close();
        sender.send("two");
        assertTrue(Files.exists(lane()));
        assertThrows(
                StorageException.class,
                () -> new LaneWriter(root.toString(), "analytics", "nobody", 1, mac, MANNER).hasRoom(1));
    }

    @Test
    void anInboxIsListedOnlyIfLanesCameOrWent() throws IOException, PosixException {
        Inbox inbox = inbox(1);
        awaitNothingNew(inbox);
        new Sender(1).send("one");
        assertEquals(Set.of("analytics"), inbox.scan(name -> false));
        awaitNothingNew(inbox);
        Files.move(lane(), root.resolve("aside"));
        assertEquals(Set.of(), inbox.scan(name -> false));
    }

    @Test
    void anInboxIsListedAgainForAsLongAsItsFilesystemMayBeLate() throws PosixException {
        Inbox inbox = inbox(1);
        inbox.late(0.3);
        long began = System.nanoTime();
        awaitNothingNew(inbox);
        assertTrue(System.nanoTime() - began >= 300_000_000);
    }

    @Test
    void ofMoreLanesThanMayBeListedTheRequestedOnesAndTheNewestAre() throws IOException, PosixException {
        Inbox inbox = new Inbox(root.toString(), "billing", 1, ring, false, 3);
        inbox.prepare();
        for (String name : List.of("a", "b", "c", "d", "e", "f")) {
            Path place = Files.createDirectory(root.resolve("billing/inbox/" + name));
            Files.setLastModifiedTime(place, FileTime.fromMillis(1000 - name.charAt(0)));
        }
        assertEquals(Set.of("a", "b", "c"), inbox.scan(name -> false));
        assertEquals(Set.of("a", "e", "f"), inbox.scan(name -> name.compareTo("e") >= 0));
    }

    /** Until the clock passed the time of the directory it is listed again. */
    private static void awaitNothingNew(Inbox inbox) throws PosixException {
        long until = System.nanoTime() + 60_000_000_000L;
        while (inbox.scan(name -> false) != null) {
            assertTrue(System.nanoTime() < until, "it is always listed again");
        }
    }

    /** L-26. */
    @Test
    void aLaneAtRestHoldsNothingOpenAndGoesOnWhereItStood() throws IOException {
        Sender sender = new Sender(1);
        sender.send("one");
        sender.send("two");
        sender.writer.close();
        LaneReader reader = inbox(1).lane("analytics");
        List<Received> first = read(reader);
        assertEquals(3, OpenFiles.below(lane()).size());
        reader.rest();
        assertEquals(List.of(), OpenFiles.below(lane()));
        reader.finish(first.get(0).token());
        assertTrue(reader.commit());
        reader.rest();
        sender.send("three");
        sender.writer.close();
        assertEquals(List.of("three"), texts(read(reader)));
        reader.rest();
        assertEquals(List.of(), OpenFiles.below(lane()));
        reader.abandon();
        assertEquals(List.of("two", "three"), texts(read(inbox(2).lane("analytics"))));
    }

    /** L-26: its position says nothing about another directory. */
    @Test
    void whatStandsInThePlaceOfALaneAtRestIsNotTakenForIt() throws IOException {
        new Sender(1).send("one");
        LaneReader reader = inbox(1).lane("analytics");
        List<Received> received = read(reader);
        reader.rest();
        Files.move(lane(), root.resolve("aside"));
        Files.createDirectory(lane());
        assertThrows(PosixException.class, () -> read(reader));
        reader.finish(received.get(0).token());
        assertFalse(reader.commit());
    }

    /** L-6: leftovers count until a cursor lies behind them; an empty lane takes any one envelope. */
    @Test
    void theWindowBoundsWhatWaits() throws PosixException {
        Sender sender = new Sender(1);
        LaneWriter narrow = new LaneWriter(
                root.toString(), "analytics", "billing", 2, mac, new LaneWriter.WriteOptions(100, false, false));
        assertTrue(narrow.hasRoom(1_000_000));
        sender.send("x".repeat(200));
        narrow.close();
        assertFalse(narrow.hasRoom(1));
        LaneReader reader = inbox(1).lane("analytics");
        read(reader).forEach(one -> reader.finish(one.token()));
        reader.commit();
        assertTrue(narrow.hasRoom(100));
    }

    /** L-23: each append is one complete file. */
    @Test
    void aSenderWithoutBellsPublishesWholeSegments() throws PosixException {
        LaneWriter writer = new LaneWriter(
                root.toString(), "analytics", "billing", 1, mac, new LaneWriter.WriteOptions(1 << 26, true, false));
        LinkSealer sealer = new LinkSealer(ring, SOURCE, TARGET, 1, bytes -> {});
        for (int counter = 1; counter <= 3; counter++) {
            Block block = new Block(200);
            writer.append(block, List.of(sealer.seal(block, 0, EnvelopeType.MESSAGE, 0, counter, 1, new byte[10])));
        }
        assertTrue(Files.exists(file("000001-00000003")));
        assertEquals(3, read(inbox(1).lane("analytics")).size());
    }
}
