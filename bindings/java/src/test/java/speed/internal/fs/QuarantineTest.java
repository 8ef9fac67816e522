package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Keyring;
import speed.tool.BenchRoot;

/** L-20: the bounds of the quarantine hold whatever sizes files claim. */
class QuarantineTest {
    private static void sparse(Path file) throws IOException {
        try (RandomAccessFile giant = new RandomAccessFile(file.toFile(), "rw")) {
            giant.setLength(Long.MAX_VALUE);
        }
    }

    private static List<String> kept(Path quarantine) throws IOException {
        try (Stream<Path> files = Files.list(quarantine)) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void aSparseGiantDoesNotFitWhateverLiesThereAlready() throws IOException {
        try (BenchRoot root = new BenchRoot(null)) {
            assumeTrue(root.path().startsWith("/dev/shm")); // other filesystems have no files of that size
            Inbox inbox = new Inbox(root.path().toString(), "billing", 1, new Keyring(List.of(new byte[32])), false);
            inbox.prepare();
            Path foreign = root.path().resolve("billing/inbox");
            Files.writeString(foreign.resolve("small.file"), "x");
            inbox.scan(name -> false);
            sparse(foreign.resolve("giant.file"));
            Files.createDirectory(foreign.resolve("two giants"));
            sparse(foreign.resolve("two giants/one"));
            sparse(foreign.resolve("two giants/two"));
            inbox.scan(name -> false);
            assertFalse(Files.exists(foreign.resolve("giant.file")));
            assertEquals(
                    List.of("00000001", "00000001.reason"), kept(root.path().resolve("billing/quarantine")));
        }
    }

    /** One that an earlier version let in. */
    @Test
    void aSparseGiantThatLiesThereLeavesNoRoom() throws IOException {
        try (BenchRoot root = new BenchRoot(null)) {
            assumeTrue(root.path().startsWith("/dev/shm"));
            Path quarantine = Files.createDirectories(root.path().resolve("billing/quarantine"));
            sparse(quarantine.resolve("00000001"));
            Files.writeString(quarantine.resolve("00000002"), "small");
            Inbox inbox = new Inbox(root.path().toString(), "billing", 1, new Keyring(List.of(new byte[32])), false);
            inbox.prepare();
            Files.writeString(root.path().resolve("billing/inbox/small.file"), "x");
            inbox.scan(name -> false);
            assertEquals(List.of("00000001", "00000002"), kept(quarantine));
        }
    }
}
