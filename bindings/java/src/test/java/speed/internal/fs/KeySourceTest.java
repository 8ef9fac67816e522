package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import speed.errors.WireException;
import speed.internal.fs.KeyFiles.KeySource;
import speed.internal.wire.Block;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Keyring;
import speed.internal.wire.LinkOpener;
import speed.internal.wire.LinkSealer;

/** W-20: a key file that changes under a running node is taken whole, or not at all. */
class KeySourceTest extends OneLane {
    private static final byte[] OLD = filled(0);
    private static final byte[] NEW = filled(7);

    private Path file;
    private KeySource source;

    private static byte[] filled(int value) {
        byte[] key = new byte[32];
        Arrays.fill(key, (byte) value);
        return key;
    }

    @BeforeEach
    void open() throws IOException {
        file = root.resolve("speed.key");
        put(OLD);
        source = new KeySource(file.toString());
    }

    private void put(byte[]... keys) throws IOException {
        StringBuilder text = new StringBuilder("SPEED-KEY-V1\n\n");
        for (byte[] key : keys) {
            text.append(Base64.getEncoder().encodeToString(key)).append('\n');
        }
        Path replacement = root.resolve("speed.key.new");
        Files.deleteIfExists(replacement);
        Files.createFile(
                replacement, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(replacement, text);
        Files.move(replacement, file, StandardCopyOption.ATOMIC_MOVE);
    }

    private byte[] registryKey() {
        return source.keyring().now().registryKey();
    }

    private static byte[] registryKeyOf(byte[] key) {
        return new Keyring(List.of(key)).now().registryKey();
    }

    @Test
    void theKeysOfAChangedFileAreTakenWithTheNextLook() throws IOException {
        put(NEW, OLD);
        assertNull(source.look());
        assertEquals(2, source.keyring().registryKeys().size());
        assertTrue(Arrays.equals(registryKeyOf(NEW), registryKey()));
    }

    /** What spoils a file. */
    private interface Spoiling {
        void spoil() throws IOException;
    }

    @Test
    void aFileThatIsNotSoundChangesNothing() throws IOException {
        for (Spoiling one : List.<Spoiling>of(
                () -> Files.writeString(file, "SPEED-KEY-V1\n\nAAAA"),
                () -> Files.writeString(file, ""),
                () -> Files.delete(file),
                () -> Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--")))) {
            put(NEW);
            one.spoil();
            assertNotNull(source.look());
            assertTrue(Arrays.equals(registryKeyOf(OLD), registryKey()));
        }
    }

    @Test
    void anUnknownKeyIsLookedForAtOnceButNotAgainAndAgain() throws IOException {
        byte[] id = new Keyring(List.of(NEW)).keyId();
        put(OLD, NEW);
        assertNotNull(source.keyring().deadLettersKey(id, SOURCE));
        put(OLD);
        assertThrows(WireException.class, () -> source.keyring().deadLettersKey(new byte[8], SOURCE));
        assertNotNull(source.keyring().deadLettersKey(id, SOURCE)); // within a second the file was not read again
    }

    @Test
    void aLinkSealsWithTheNewKeyAtOnceAndARetiredOneOpensNothing() throws IOException {
        LinkSealer sealer = new LinkSealer(source.keyring(), SOURCE, TARGET, 1, bytes -> {});
        LinkOpener opener = new LinkOpener(source.keyring(), SOURCE, TARGET);
        Block before = new Block(104);
        sealer.seal(before, 0, EnvelopeType.MESSAGE, 0, 1, 1, new byte[0]);
        put(NEW, OLD);
        source.look();
        Block after = new Block(104);
        sealer.seal(after, 0, EnvelopeType.MESSAGE, 0, 2, 1, new byte[0]);
        Header older = Header.parse(before.bytes, 0, 104);
        Header newer = Header.parse(after.bytes, 0, 104);
        assertEquals(Keyring.keyId(OLD), older.keyId());
        assertEquals(Keyring.keyId(NEW), newer.keyId());
        assertEquals(older.sequence() + 1, newer.sequence());
        opener.open(older, before, 0, new Block(104));
        put(NEW);
        source.look();
        WireException refused = assertThrows(WireException.class, () -> opener.open(older, before, 0, new Block(104)));
        assertEquals("UNKNOWN_KEY", refused.reason());
        opener.open(newer, after, 0, new Block(104));
    }

    @Test
    void aScanLeavesNoCursorThatOnlyARetiredKeyOpens() throws Exception {
        Sender sender = new Sender(1);
        sender.send("one");
        LaneReader reader = inbox(1).lane("analytics");
        List<Received> received = read(reader);
        reader.finish(received.get(0).token());
        ring.take(List.of(NEW, OLD));
        read(reader);
        reader.abandon();
        ring.take(List.of(NEW));
        LaneReader again = inbox(2).lane("analytics");
        assertEquals(List.of(), texts(read(again)));
        assertEquals(Map.of(), counts(again));
        again.abandon();
    }
}
