package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.jna.Function;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Fence;
import speed.internal.wire.Names.LaneFile;

/** L-18: where a successor ends the lanes of its predecessors. */
class FencesTest extends OneLane {
    private static final int NOBODY = 65534;

    /** What the filesystem lets this thread do, and no other, is up to this user from now on. */
    private static void become(int user) {
        Function.getFunction("c", "setfsuid").invokeInt(new Object[] {user});
    }

    private void giveAll(int user) throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            for (Path file : files.toList()) {
                Files.setAttribute(file, "unix:uid", user);
            }
        }
    }

    private void asNobody(FailingCall.Action action) throws IOException {
        boolean isRoot = Posix.uid() == 0; // whom no mode keeps out
        if (isRoot) {
            giveAll(NOBODY);
            become(NOBODY);
        }
        try {
            action.run();
        } finally {
            if (isRoot) {
                become(0);
            }
        }
    }

    private void mode(Path path, String mode) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
    }

    @Test
    void theClosedDirectoryOfAnotherNodeHoldsNoLaneOfOurs() throws IOException {
        Path stranger = root.resolve("stranger");
        Files.createDirectories(stranger.resolve("inbox/analytics"));
        new Sender(1).send("by right");
        mode(stranger, "---------");
        try {
            asNobody(() -> Fences.set(root.toString(), "analytics", 2, ring));
        } finally {
            mode(stranger, "rwx------");
        }
        assertTrue(Files.exists(lane().resolve("000002.fence")));
        assertFalse(Files.exists(stranger.resolve("inbox/analytics/000002.fence")));
    }

    @Test
    void aLaneThatCannotBeFencedIsAnErrorStill() throws PosixException {
        new Sender(1).send("by right");
        for (int errno : List.of(PosixException.EMFILE, PosixException.EIO)) {
            FailingCall.during(
                    "openat",
                    errno,
                    () -> assertThrows(PosixException.class, () -> Fences.set(root.toString(), "analytics", 2, ring)));
        }
    }

    private Fence fence(int generation) throws PosixException {
        return new LaneFiles(lane().toString(), mac, null).readFence(generation);
    }

    /** What is no lane file of an older generation bounds nothing. */
    @Test
    void aFenceStandsAtTheEndOfTheLastSegmentOfAPredecessor() throws IOException {
        new Sender(1).send("by right");
        Files.createDirectory(file("000001-00000009"));
        Files.createFile(file("000003-00000001"));
        Files.createFile(root.resolve("no directory"));
        Fences.set(root.toString(), "analytics", 2, ring);
        assertEquals(new Fence(2, new LaneFile(1, 1), Files.size(file("000001-00000001"))), fence(2));
    }

    @Test
    void aSegmentThatIsConsumedWhileItIsFencedBoundsNothing() throws IOException {
        new Sender(1).send("by right");
        BooleanSupplier consumed = () -> {
            assertDoesNotThrow(() -> Files.deleteIfExists(file("000001-00000001")));
            return false;
        };
        FailingCall.during("statx", 0, consumed, () -> Fences.set(root.toString(), "analytics", 2, ring));
        assertEquals(new Fence(2, LaneFile.NONE, 0), fence(2));
    }

    @Test
    void aFenceUnderAnotherNumberSaysNothing() throws IOException {
        new Sender(1).send("by right");
        Fences.set(root.toString(), "analytics", 2, ring);
        Files.move(lane().resolve("000002.fence"), lane().resolve("000004.fence"));
        assertNull(fence(4));
        assertNull(fence(2));
    }
}
