package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
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
        for (String others : List.of("r--r--", "---r--", "-w----", "rw----", "--x---", "-----x")) {
            refused(file(TEXT, "rw-" + others), "chmod 600");
        }
        refused(file(TEXT + " ".repeat(5000), "rw-------"), "too large");
        refused(root.toString(), "no regular file");
        refused(root.resolve("absent").toString(), "speed root init");
        Posix.makeFifo(root.resolve("fifo").toString());
        refused(root.resolve("fifo").toString(), "no regular file");
    }

    /** What Kubernetes mounts for a secret with defaultMode 0440 and fsGroup. */
    @Test
    void theSecretOfAPodIsReadByWhoIsInItsGroup() throws IOException {
        Path volume = Files.createDirectory(root.resolve("secret"));
        Path data = Files.createDirectory(volume.resolve("..2024_05_06"));
        Path key = Files.move(Path.of(file(TEXT, "r--r-----")), data.resolve("speed.key"));
        Files.createSymbolicLink(volume.resolve("..data"), Path.of("..2024_05_06"));
        Path link = Files.createSymbolicLink(volume.resolve("speed.key"), Path.of("..data/speed.key"));
        Files.setAttribute(volume, "unix:mode", 03777);
        assertEquals(1, KeyFiles.load(link.toString()).registryKeys().size());
        if (Posix.uid() == 0) {
            Files.setAttribute(key, "unix:gid", 54321);
            refused(link.toString(), "chmod 600");
        }
    }

    @Test
    void linksAreFollowedUpAndDownButNotWithoutEnd() throws IOException {
        file(TEXT, "rw-------");
        Files.createDirectories(root.resolve("deep/er"));
        Files.createSymbolicLink(root.resolve("directory"), Path.of("deep/er"));
        Files.createSymbolicLink(root.resolve("relative"), Path.of("./deep/../directory/../../speed.key"));
        Files.createSymbolicLink(root.resolve("absolute"), root.resolve("relative"));
        assertEquals(
                1,
                KeyFiles.load(root.resolve("absolute").toString())
                        .registryKeys()
                        .size());
        Files.createSymbolicLink(root.resolve("one"), Path.of("two"));
        Files.createSymbolicLink(root.resolve("two"), Path.of("one"));
        refused(root.resolve("one").toString(), "more than 40 links");
    }

    @Test
    void aDirectoryToWhichOthersCanWriteIsRefusedUnlessItIsSticky() throws IOException {
        Path open = Files.createDirectory(root.resolve("open"));
        Path key = Files.move(Path.of(file(TEXT, "rw-------")), open.resolve("speed.key"));
        Path link = Files.createSymbolicLink(root.resolve("link"), key);
        for (int mode : new int[] {0777, 0775, 0757}) {
            Files.setAttribute(open, "unix:mode", mode);
            refused(key.toString(), "chmod go-w " + open);
            refused(link.toString(), "chmod go-w " + open);
        }
        Files.setAttribute(open, "unix:mode", 01777);
        assertEquals(1, KeyFiles.load(key.toString()).registryKeys().size());
    }

    @Test
    void aStepOfAnotherUserIsRefused() throws IOException {
        String key = file(TEXT, "rw-------");
        Path link = Files.createSymbolicLink(root.resolve("link"), Path.of("speed.key"));
        if (Posix.uid() == 0) { // only root can make the files of somebody else
            Files.setAttribute(link, "unix:uid", 54321, LinkOption.NOFOLLOW_LINKS);
            refused(link.toString(), "link belongs to another user (uid 54321)");
            Files.setAttribute(root, "unix:uid", 54321);
            refused(key, root + " belongs to another user");
        }
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
    void aCredentialOfSystemdIsTheKeyWhereThereIsOne() throws IOException {
        Map<String, String> environment = Map.of("CREDENTIALS_DIRECTORY", root.toString());
        assertEquals("/r/speed.key", KeyFiles.defaultKey("/r", environment));
        String given = file(TEXT, "r--------");
        assertEquals(given, KeyFiles.defaultKey("/r", environment));
        assertEquals("/a", KeyFiles.defaultKey("/r", Map.of("SPEED_KEY", "/a", "CREDENTIALS_DIRECTORY", root + "")));
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
        assertTrue(
                !KeyFiles.defaultRoot().isEmpty() && !KeyFiles.defaultKey("/r").isEmpty());
    }
}
