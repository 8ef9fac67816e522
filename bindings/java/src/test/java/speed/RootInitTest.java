package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.KeyFileException;
import speed.errors.RootException;
import speed.internal.wire.Names;

/** A root and its key are made by a program, as {@code speed root init} makes them, and nothing that is there is replaced. */
@Timeout(300)
class RootInitTest {
    @TempDir
    private Path place;

    private Path root;
    private Path key;

    @BeforeEach
    void names() {
        root = place.resolve("new/shop");
        key = root.resolve("speed.key");
    }

    private static String rights(Path path) throws IOException {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(path, LinkOption.NOFOLLOW_LINKS));
    }

    private String refusal(Path file) {
        return assertThrows(KeyFileException.class, () -> Root.init(root, file)).getMessage();
    }

    @Test
    void makesWhatTwoNodesNeedToTalk() {
        Path made = Root.init(root, key);
        try (Node adder =
                        Node.builder("adder").root(made).key(key).allow("asker").open();
                Node asker = Node.builder("asker").root(made).key(key).open()) {
            adder.register("addOne", request -> request.get("x", Long.class) + 1);
            assertEquals(42L, asker.call("adder", "addOne", Map.of("x", 41)));
        }
    }

    @Test
    void allOfItIsForThisUserAlone() throws IOException {
        Root.init(root, key);
        Path registry = Path.of(Names.registryDirectory(root.toString()));
        Path claims = Path.of(Names.claimsDirectory(root.toString()));
        for (Path made : List.of(root.getParent(), root, registry, claims)) {
            assertEquals("rwx------", rights(made), made.toString());
        }
        assertEquals("rw-------", rights(key));
        assertFalse(Files.exists(root.resolve("speed.key.new")));
    }

    @Test
    void aKeyThatIsThereIsKept() throws IOException {
        Root.init(root, key);
        byte[] before = Files.readAllBytes(key);
        assertEquals(root, Root.init(root.resolve("../shop"), key));
        assertArrayEquals(before, Files.readAllBytes(key));
    }

    @Test
    void twoRootsHaveTwoKeys() throws IOException {
        Root.init(root, key);
        Path other = place.resolve("other");
        Root.init(other, other.resolve("speed.key"));
        assertNotEquals(Files.readString(key), Files.readString(other.resolve("speed.key")));
    }

    @Test
    void manyAtOnceAgreeOnOneKey() throws InterruptedException {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        List<Thread> threads = IntStream.range(0, 8)
                .mapToObj(index -> new Thread(() -> seen.add(keyAfterInit())))
                .collect(Collectors.toList());
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(1, seen.size());
    }

    private String keyAfterInit() {
        try {
            Root.init(root, key);
            return Files.readString(key);
        } catch (IOException | RuntimeException error) {
            return error + " in " + Thread.currentThread().getName();
        }
    }

    @Test
    void whatAKilledProcessLeftNextToTheKeyIsTakenAway() throws IOException {
        Files.createDirectory(
                root.getParent(), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Path other = root.getParent().resolve("own.key");
        Files.writeString(root.getParent().resolve("own.key.new"), "half a key");
        Root.init(root, other);
        assertTrue(Files.readString(other).startsWith("SPEED-KEY-V1\n\n"));
    }

    @Test
    void aKeyThatIsDamagedOpenToOthersOrALinkToNothingIsRefusedAndKept() throws IOException {
        Root.init(root, key);
        Files.setPosixFilePermissions(key, PosixFilePermissions.fromString("rw-r--r--"));
        assertTrue(refusal(key).contains("chmod 600"));
        Files.setPosixFilePermissions(key, PosixFilePermissions.fromString("rw-------"));
        Files.writeString(key, "no key");
        assertTrue(refusal(key).contains("line 1"));
        assertEquals("no key", Files.readString(key));
        Path link = Files.createSymbolicLink(place.resolve("link"), Path.of("absent"));
        assertTrue(refusal(link).contains("there is no key file"));
        assertFalse(Files.exists(place.resolve("absent")));
    }

    @Test
    void aPlaceThatCannotBeWrittenIsAKeyFileExceptionThatSaysWhatToDo() {
        assertTrue(refusal(place.resolve("absent/speed.key")).contains("name another place"));
    }

    @Test
    void aRootThatEverybodyCanWriteToIsRefusedBeforeAKeyIsThere() throws IOException {
        Files.createDirectories(root);
        Files.setPosixFilePermissions(root, PosixFilePermissions.fromString("rwxrwxrwx"));
        assertThrows(RootException.class, () -> Root.init(root, key));
        assertFalse(Files.exists(key));
    }

    @Test
    void nothingForARootOrAKeyIsRefusedByName() {
        assertTrue(assertThrows(RuntimeException.class, () -> Root.init(null))
                .getMessage()
                .contains("root"));
        assertTrue(assertThrows(RuntimeException.class, () -> Root.init(root, null))
                .getMessage()
                .contains("key"));
    }
}
