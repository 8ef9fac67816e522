package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** L-15: what a cursor that was closed cleanly still tells when a newer one is missing or damaged. */
@Timeout(300)
class SuccessionTest extends OneLane {
    private Path cursor(int generation) {
        return lane().resolve("cursor.%06d".formatted(generation));
    }

    /** Closed cleanly in generation 1, with one envelope that nobody has read. */
    private void closeCleanly() throws PosixException {
        new Sender(1).send("one");
        LaneReader closed = inbox(1).lane("analytics");
        closed.close();
    }

    @Test
    void theCursorThatAReaderWithoutSpaceGoesOnFromIsNoCleanEndAnyMore() throws IOException {
        closeCleanly();
        long size = Files.size(cursor(1));
        FailingCall.during("write", PosixException.ENOSPC, () -> {
            LaneReader died = inbox(2).lane("analytics");
            assertEquals(List.of("one"), texts(read(died)));
            died.abandon();
        });
        assertFalse(Files.exists(cursor(2)));
        assertEquals(size, Files.size(cursor(1)));
        List<Received> again = read(inbox(3).lane("analytics"));
        assertEquals(List.of("one"), texts(again));
        assertTrue(again.get(0).redelivered());
    }

    @Test
    void aReaderWithSpaceMarksNothingAfterACleanEnd() throws PosixException {
        closeCleanly();
        assertFalse(read(inbox(2).lane("analytics")).get(0).redelivered());
    }

    /** L-10: it is neither missing nor damaged, and the next scan opens the lane again. */
    @Test
    void aCursorThatCannotBeReadNowIsNotPassedOver() throws PosixException {
        closeCleanly();
        BooleanSupplier readingTheCursor = () -> StackWalker.getInstance()
                .walk(frames -> frames.anyMatch(frame -> frame.getMethodName().equals("readCursor")));
        FailingCall.during(
                "openat",
                PosixException.EMFILE,
                readingTheCursor,
                () -> assertThrows(PosixException.class, () -> inbox(2).lane("analytics")));
        assertFalse(Files.exists(cursor(2)));
        assertFalse(read(inbox(2).lane("analytics")).get(0).redelivered());
    }

    @Test
    void aDamagedNewerCursorMakesACleanEndUncertain() throws IOException {
        closeCleanly();
        Files.write(cursor(2), new byte[100]);
        LaneReader successor = inbox(3).lane("analytics");
        assertTrue(read(successor).get(0).redelivered());
        assertEquals(1L, counts(successor).get("cursors_damaged"));
    }
}
