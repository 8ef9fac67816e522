package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Header.EnvelopeType;

/** L-15: a receiver died with envelopes in hand; its successor hands out what is still there, marked. */
class RedeliveryTest extends OneLane {
    private static final String SEGMENT = "000001-00000001";

    /** A receiver read all of these, finished the last one only, and died. */
    private void dieWith(List<byte[]> payloads) throws PosixException {
        Sender sender = new Sender(1);
        payloads.forEach(payload -> sender.send(EnvelopeType.MESSAGE, payload));
        LaneReader died = inbox(1).lane("analytics");
        List<Received> received = read(died);
        died.finish(received.get(received.size() - 1).token()); // so that the cursor passes and lists the others
        died.commit();
        died.abandon();
    }

    private static List<byte[]> payloads(int... sizes) {
        List<byte[]> payloads = new ArrayList<>();
        for (int size : sizes) {
            payloads.add(new byte[size]);
        }
        return payloads;
    }

    private static List<Integer> sizes(List<Received> received) {
        assertTrue(received.stream().allMatch(Received::redelivered));
        return received.stream().map(one -> one.payload().length).toList();
    }

    @Test
    void whatWasInHandComesInPartsAsItIsRequested() throws PosixException {
        dieWith(payloads(1, 2, 3, 4, 5, 6));
        LaneReader successor = inbox(2).lane("analytics");
        assertEquals(
                List.of(1, 2),
                sizes(successor.read(2, 1 << 20, System.nanoTime(), true).received()));
        assertEquals(
                List.of(3),
                sizes(successor.read(ALL, 1, System.nanoTime(), true).received()));
        assertEquals(List.of(4, 5), sizes(read(successor)));
    }

    @Test
    void anEnvelopeLargerThanAReadComesAgainWhole() throws PosixException {
        dieWith(payloads(3 * ReadBuffer.CHUNK_BYTES, 1));
        assertEquals(List.of(3 * ReadBuffer.CHUNK_BYTES), sizes(read(inbox(2).lane("analytics"))));
    }

    @Test
    void whatIsGoneIsCountedAndNotWaitedFor() throws IOException {
        dieWith(payloads(1, 2, 3));
        Files.delete(file(SEGMENT));
        LaneReader successor = inbox(2).lane("analytics");
        assertEquals(List.of(), read(successor));
        assertEquals(2L, counts(successor).get("redeliveries_lost"));
    }

    @Test
    void whatWasOverwrittenIsCounted() throws IOException {
        dieWith(payloads(1, 2, 3));
        byte[] bytes = Files.readAllBytes(file(SEGMENT));
        bytes[50] ^= 1;
        Files.write(file(SEGMENT), bytes);
        LaneReader successor = inbox(2).lane("analytics");
        assertEquals(List.of(2), sizes(read(successor)));
        assertEquals(1L, counts(successor).get("redeliveries_lost"));
    }

    /** An authentic envelope of another number is not what was in hand. */
    @Test
    void anotherEnvelopeAtThePlaceIsNotTakenForTheOneInHand() throws IOException {
        dieWith(payloads(1, 1, 3));
        byte[] bytes = Files.readAllBytes(file(SEGMENT));
        int each = (bytes.length - 2) / 3;
        System.arraycopy(bytes, each, bytes, 0, each);
        Files.write(file(SEGMENT), bytes);
        LaneReader successor = inbox(2).lane("analytics");
        assertEquals(List.of(1), sizes(read(successor)));
        assertEquals(1L, counts(successor).get("redeliveries_lost"));
    }
}
