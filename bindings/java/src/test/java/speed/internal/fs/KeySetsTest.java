package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import speed.KeySet;
import speed.errors.ConfigurationException;
import speed.errors.KeyRefusedException;
import speed.errors.KeyUnavailableException;
import speed.errors.WeakAlgorithmException;
import speed.message.Algorithm;
import speed.message.MessageKey;

/** M-26: sets of keys in files and in the environment. */
class KeySetsTest {
    private static final MessageKey READER = MessageKey.generate("reader-1", Algorithm.X25519);
    private static final MessageKey SIGNER = MessageKey.generate("signer-1", Algorithm.ED25519);

    @TempDir
    Path directory;

    private String file(byte[] text, String permissions) throws IOException {
        Path path = directory.resolve("my keys.json");
        Files.deleteIfExists(path);
        Files.write(path, text);
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
        return path.toUri().toString();
    }

    private String file(String text, String permissions) throws IOException {
        return file(text.getBytes(StandardCharsets.UTF_8), permissions);
    }

    private static String refused(String uri) {
        return assertThrows(KeyRefusedException.class, () -> KeySets.read(uri)).getMessage();
    }

    private static List<String> ids(List<MessageKey> keys) {
        return keys.stream().map(MessageKey::id).toList();
    }

    @Test
    void oneRecordOrAListOfThemIsRead() throws IOException {
        assertEquals(List.of("reader-1"), ids(KeySets.read(file(READER.toJson(), "rw-------"))));
        String both = "[" + READER.toJson() + ", " + SIGNER.toJson() + "]";
        MessageKey[] read = KeySet.read(file(both, "r--------"));
        assertEquals(List.of("reader-1", "signer-1"), ids(List.of(read)));
        assertTrue(read[0].hasSecret());
    }

    @Test
    void aVariableIsRead() {
        Map<String, String> environment = Map.of("ORDERS_KEYS", READER.toJson());
        assertEquals(List.of("reader-1"), ids(KeySets.read("env://ORDERS_KEYS", environment)));
        assertThrows(KeyUnavailableException.class, () -> KeySets.read("env://OTHER_KEYS", environment));
        assertThrows(KeyUnavailableException.class, () -> KeySet.read("env://NO_SUCH_VARIABLE_OF_SPEED"));
    }

    @Test
    void aSecretThatOthersReachIsRefusedWithWhatToDo() throws IOException {
        for (String others : List.of("r-----", "---r--", "-w----", "----w-", "--x---")) {
            String reason = refused(file(READER.toJson(), "rw-" + others));
            assertTrue(reason.contains("chmod 600"), reason);
        }
    }

    @Test
    void publicPartsMayBeReadByOthersAndNotWritten() throws IOException {
        String shown = READER.publicPart().toJson();
        assertEquals(List.of("reader-1"), ids(KeySets.read(file(shown, "rw-r--r--"))));
        refused(file(shown, "rw-rw----"));
        refused(file(shown, "rw-r--rw-"));
    }

    @Test
    void aLinkADirectoryAndAFifoAreRefusedAndNotWaitedFor() throws IOException {
        Path link = Files.createSymbolicLink(
                directory.resolve("link"), Path.of(java.net.URI.create(file(READER.toJson(), "rw-------"))));
        refused("file://" + link);
        refused("file://" + directory);
        Posix.makeFifo(directory.resolve("fifo").toString());
        refused("file://" + directory.resolve("fifo"));
    }

    @Test
    void aFileOfAnotherUserIsRefused() throws IOException {
        String uri = file(READER.toJson(), "rw-------");
        org.junit.jupiter.api.Assumptions.assumeTrue(Posix.uid() == 0, "only root gives files away");
        Files.setAttribute(Path.of(java.net.URI.create(uri)), "unix:uid", 54321);
        assertTrue(refused(uri).contains("of this user"));
    }

    @Test
    void aFileThatIsNotThereIsUnavailable() {
        assertThrows(KeyUnavailableException.class, () -> KeySets.read("file://" + directory.resolve("absent")));
    }

    @TestFactory
    Stream<DynamicTest> whatIsNoSetIsRefusedByNameAndNotShown() {
        String secret = READER.toJson();
        String many = IntStream.range(0, 65)
                .mapToObj(number -> READER.publicPart().toJson().replace("reader-1", "reader-" + number))
                .collect(Collectors.joining(",", "[", "]"));
        return Stream.of(
                        "",
                        "no JSON: " + secret,
                        "null",
                        "7",
                        "[]",
                        "[7]",
                        "{}",
                        many,
                        "[".repeat(100_000),
                        "[" + secret + "," + secret + "]",
                        secret + " ".repeat(1 << 20))
                .map(text -> DynamicTest.dynamicTest(text.substring(0, Math.min(12, text.length())) + "…", () -> {
                    String reason = refused(file(text, "rw-------"));
                    assertTrue(reason.startsWith("key set "), reason);
                    assertFalse(reason.contains(secret.substring(60)), reason);
                }));
    }

    @Test
    void bytesThatAreNoTextAreRefused() throws IOException {
        assertTrue(refused(file(new byte[] {'"', (byte) 0xff, '"'}, "rw-------"))
                .contains("is not JSON"));
    }

    @Test
    void aWeakAlgorithmIsNamed() throws IOException {
        String uri = file("{\"id\": \"k\", \"algorithm\": \"aes-128-gcm\", \"secret\": \"AAAA\"}", "rw-------");
        assertThrows(WeakAlgorithmException.class, () -> KeySets.read(uri));
    }

    @TestFactory
    Stream<DynamicTest> anotherUriIsRefused() {
        return Stream.of(
                        "vault://secret/orders",
                        "awskms:///etc/keys",
                        "https://keys",
                        "/etc/speed/keys.json",
                        "",
                        "file://etc/keys.json",
                        "file:keys.json",
                        "file:///etc/keys.json?x=1",
                        "file:///etc/a%00b",
                        "env:NAME",
                        "env://NAME/more",
                        "env://",
                        "a b",
                        "{\"secret\": \"x\"}")
                .map(uri -> DynamicTest.dynamicTest(uri.isEmpty() ? "(empty)" : uri, () -> {
                    ConfigurationException refused =
                            assertThrows(ConfigurationException.class, () -> KeySets.read(uri));
                    assertTrue(refused.getMessage().contains("file")
                            || refused.getMessage().contains("env"));
                }));
    }
}
