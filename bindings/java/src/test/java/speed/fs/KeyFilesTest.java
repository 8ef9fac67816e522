package speed.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.KeyFileException;

/** W-14: a key file is one only if nobody else can read it. */
class KeyFilesTest {
    private static final String TEXT = "SPEED-KEY-V1\n\n" + "A".repeat(43) + "=\n";

    @TempDir
    Path root;

    private String file(String text, String permissions) throws IOException {
        Path file = root.resolve("speed.key");
        Files.deleteIfExists(file);
        Files.createFile(file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(file, text);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
        return file.toString();
    }

    private static void refused(String path, String why) {
        KeyFileException error = assertThrows(KeyFileException.class, () -> KeyFiles.load(path));
        assertTrue(error.getMessage().contains(why), error.getMessage());
    }

    @Test
    void aPrivateKeyFileIsRead() throws IOException {
        assertEquals(1, KeyFiles.load(file(TEXT, "rw-------")).registryKeys().size());
    }

    @Test
    void whatOthersCanReachIsTooLargeOrIsNoFileIsRefusedWithWhatToDo() throws IOException {
        refused(file(TEXT, "rw-r-----"), "chmod 600");
        refused(file(TEXT + " ".repeat(5000), "rw-------"), "too large");
        refused(root.toString(), "no regular file");
        refused(root.resolve("absent").toString(), "speed init");
        Files.createSymbolicLink(root.resolve("link"), root.resolve("speed.key"));
        refused(root.resolve("link").toString(), "cannot read the key file");
        Posix.makeFifo(root.resolve("fifo").toString());
        refused(root.resolve("fifo").toString(), "no regular file");
    }

    @Test
    void aKeyFileOfAnotherUserIsRefused() throws IOException {
        String path = file(TEXT, "rw-------");
        if (Posix.uid() == 0) { // only root can make the file of somebody else
            Files.setAttribute(Path.of(path), "unix:uid", 12345);
            refused(path, "uid 12345");
        }
    }

    @Test
    void aKeyFileThatCannotBeReadIsANamedError() throws IOException {
        String path = file(TEXT, "rw-------");
        FailingCall.during("pread", PosixException.EACCES, () -> refused(path, "cannot read"));
        FailingCall.during("openat", PosixException.EMFILE, () -> refused(path, "cannot read"));
    }

    @Test
    void rootAndKeyAreWhereTheEnvironmentSays() {
        assertEquals("/somewhere", KeyFiles.defaultRoot(Map.of("SPEED_ROOT", "/somewhere")));
        assertEquals(root + "/speed", KeyFiles.defaultRoot(Map.of("SPEED_ROOT", "", "XDG_RUNTIME_DIR", root + "")));
        String shared = KeyFiles.defaultRoot(Map.of("XDG_RUNTIME_DIR", root + "/absent"));
        assertTrue(shared.endsWith("/speed-" + Posix.uid()), shared);
        assertEquals(shared, KeyFiles.defaultRoot(Map.of()));
        assertEquals("/keys/a", KeyFiles.defaultKey("/r", Map.of("SPEED_KEY", "/keys/a")));
        assertEquals("/r/speed.key", KeyFiles.defaultKey("/r", Map.of("SPEED_KEY", "")));
        assertEquals("/r/speed.key", KeyFiles.defaultKey("/r", Map.of()));
        assertTrue(!KeyFiles.defaultRoot().isEmpty() && !KeyFiles.defaultKey("/r").isEmpty());
    }
}
