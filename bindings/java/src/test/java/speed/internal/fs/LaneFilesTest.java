package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.NodeId;

/** When a lane directory has changed since it was listed (L-18); files that change while they are opened (L-10). */
@Timeout(300)
class LaneFilesTest {
    @TempDir
    Path directory;

    private LaneFiles files;

    @BeforeEach
    void open() throws PosixException {
        Keyring ring = new Keyring(List.of(new byte[32]));
        LaneMac mac = new LaneMac(ring, NodeId.of("analytics"), NodeId.of("billing"));
        files = new LaneFiles(directory.toString(), mac, null);
    }

    /** Many times: between two ticks of the clock that stamps files a directory changes without another time. */
    @Test
    void aFileThatComesOrGoesRightAfterAListingIsNoticed() throws IOException, PosixException {
        Path file = directory.resolve("one");
        for (int round = 0; round < 1_000; round++) {
            files.list();
            Files.createFile(file);
            assertTrue(files.changed());
            files.list();
            Files.delete(file);
            assertTrue(files.changed());
        }
    }

    /** By the clock that stamps files, which may lag behind the exact one. */
    @Test
    void untilTheClockPassedItsTimeADirectoryIsListedAgain() throws IOException, PosixException {
        long stamp = Posix.fileClockNanos() + 15_000_000;
        Files.setLastModifiedTime(directory, FileTime.from(stamp, TimeUnit.NANOSECONDS));
        files.list();
        assertTrue(files.changed() || Posix.fileClockNanos() > stamp);
    }

    /** The clock was set back. */
    @Test
    void aTimeFarAheadIsNoReasonToListForEver() throws IOException, PosixException {
        Files.setLastModifiedTime(directory, FileTime.from(Instant.now().plusSeconds(3_600)));
        files.list();
        assertFalse(files.changed());
    }

    @Test
    void aDirectoryAtRestIsSoonListedNoMore() throws IOException, PosixException {
        Files.createFile(directory.resolve("one"));
        while (files.changed()) {
            files.list();
        }
        assertFalse(files.changed());
    }

    @Test
    void aFileThatIsReplacedWhileItIsOpenedIsOpenedAgain() throws Exception {
        Path file = directory.resolve("one");
        Path replacement = directory.resolve("two");
        Files.createFile(file);
        AtomicBoolean stop = new AtomicBoolean();
        CompletableFuture<Void> replacing = CompletableFuture.runAsync(() -> {
            while (!stop.get()) {
                assertDoesNotThrow(
                        () -> Files.move(Files.createFile(replacement), file, StandardCopyOption.ATOMIC_MOVE));
            }
        });
        try (Directory opened = Directory.open(directory.toString())) {
            for (int round = 0; round < 20_000; round++) {
                Posix.close(opened.openRegular("one"));
            }
        } finally {
            stop.set(true);
        }
        replacing.get(60, TimeUnit.SECONDS);
    }
}
