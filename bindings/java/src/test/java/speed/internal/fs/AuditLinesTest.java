package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.StorageException;
import speed.internal.wire.Json;

/** M-31: audit lines in a file. */
class AuditLinesTest {
    private static final long LARGE = 1 << 20;

    @TempDir
    Path directory;

    private Path path() {
        return directory.resolve("audit.jsonl");
    }

    private AuditLines opened(long maxBytes, int kept) {
        return new AuditLines(path().toString(), maxBytes, kept);
    }

    private static Map<String, Object> line(Object id) {
        return Map.of("message_id", id);
    }

    private void refused(String why) {
        StorageException error = assertThrows(StorageException.class, () -> opened(LARGE, 4));
        assertTrue(error.getMessage().contains(why), error.getMessage());
    }

    /** The id in each line of a file. */
    private List<Object> ids(String ending) throws IOException {
        return Files.readAllLines(Path.of(path() + ending)).stream()
                .map(one -> ((Map<?, ?>) Json.parse(one)).get("message_id"))
                .<Object>map(id -> id)
                .toList();
    }

    @Test
    void aLineIsJsonThatBeginsWithItsTimeInUtc() throws IOException {
        try (AuditLines log = opened(LARGE, 4)) {
            log.write(line("a\n\u00e4\u001b[31m"));
        }
        String text = Files.readString(path());
        assertTrue(
                text.matches("\\{\"time\":\"\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}\\+00:00\","
                        + "\"message_id\":\"a\\\\u000a\\\\u00e4\\\\u001b\\[31m\"}\n"),
                text);
    }

    @Test
    void theFileIsPrivateAndAddedTo() throws IOException {
        for (String id : List.of("1", "2")) {
            try (AuditLines log = opened(LARGE, 4)) {
                log.write(line(id));
            }
        }
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path())));
        assertEquals(List.of("1", "2"), ids(""));
    }

    @Test
    void aFullFileGetsAnotherNameAndTheOldestGoes() throws IOException {
        long oneLine = line("0").toString().length() + 60;
        try (AuditLines log = opened(oneLine, 2)) {
            Stream.of("1", "2", "3", "4").forEach(id -> log.write(line(id)));
        }
        assertEquals(List.of("4"), ids(""));
        assertEquals(List.of("3"), ids(".1"));
        assertEquals(List.of("2"), ids(".2"));
        assertFalse(Files.exists(Path.of(path() + ".3")));
    }

    @Test
    void whatIsNoFileOfThisUserIsRefusedAndNotWaitedFor() throws IOException {
        Files.createSymbolicLink(path(), directory.resolve("elsewhere"));
        refused("Too many levels of symbolic links");
        assertFalse(Files.exists(directory.resolve("elsewhere")));
        Files.delete(path());
        Posix.makeFifo(path().toString());
        refused("cannot be written");
        Files.delete(path());
        Files.createDirectory(path());
        refused("cannot be written");
    }

    @Test
    void aFileThatOthersMayWriteIsRefused() throws IOException {
        Files.createFile(path());
        Files.setPosixFilePermissions(path(), PosixFilePermissions.fromString("rw-rw----"));
        refused("which nobody else may write");
    }

    @Test
    void aFileWithoutItsDirectoryIsRefused() {
        StorageException error = assertThrows(
                StorageException.class,
                () -> new AuditLines(directory.resolve("absent/audit").toString(), LARGE, 4));
        assertTrue(error.getMessage().endsWith("; nothing was done"), error.getMessage());
    }

    @Test
    void aWriteThatFailsIsReportedAndTheNextOneTriesAgain() throws IOException {
        try (AuditLines log = opened(LARGE, 4)) {
            FailingCall.during(
                    "write",
                    PosixException.ENOSPC,
                    () -> assertThrows(StorageException.class, () -> log.write(line("lost"))));
            log.write(line("kept"));
        }
        assertEquals(List.of("kept"), ids(""));
    }

    @Test
    void aRenameThatFailsIsReportedAndTheNextOneTriesAgain() throws IOException {
        try (AuditLines log = opened(100, 1)) {
            log.write(line("1"));
            FailingCall.during(
                    "renameat",
                    PosixException.EIO,
                    () -> assertThrows(StorageException.class, () -> log.write(line("lost"))));
            log.write(line("2"));
        }
        assertEquals(List.of("1"), ids(".1"));
        assertEquals(List.of("2"), ids(""));
    }

    @Test
    void aClosedLogIsNotWritten() {
        AuditLines log = opened(LARGE, 4);
        log.close();
        log.close();
        assertThrows(StorageException.class, () -> log.write(line("late")));
    }
}
