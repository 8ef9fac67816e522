package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.SegmentStoreException;
import speed.internal.fs.SegmentIndex.KeptPayload;
import speed.internal.segment.Rebuild;
import speed.internal.segment.Reconstruction;
import speed.internal.segment.Segment;
import speed.internal.segment.Segment.PayloadKey;
import speed.internal.segment.Splitter;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;

/** What came in segments survives its process, sealed (G-14). */
class SegmentStoreTest {
    private static final Keyring RING = new Keyring(List.of(new byte[32]));

    @TempDir
    private Path root;

    private final byte[] payload = new byte[300_000];
    private final List<Segment> segments = new ArrayList<>();
    private PayloadKey key;
    private Reconstruction one;
    private SegmentStore store;

    @BeforeEach
    void open() throws IOException {
        new Random(1).nextBytes(payload);
        new Splitter(64_000, 0.5).split(payload).forEach(segments::add);
        key = new PayloadKey("analytics", 1, segments.get(0).hash());
        one = new Reconstruction(
                key, segments.get(0).dataCount(), segments.get(0).parityCount(), 1000);
        Files.createDirectory(Path.of(Names.nodeDirectory(root.toString(), "billing")));
        reopen(RING);
    }

    @AfterEach
    void close() {
        store.close();
    }

    private void reopen(Keyring ring) {
        if (store != null) {
            store.close();
        }
        store = new SegmentStore(root.toString(), "billing", () -> ring, false);
    }

    private void put(int... slots) {
        for (int slot : slots) {
            store.put(one, 1000, segments.get(slot), 2000 + slot);
        }
    }

    private Path index() {
        return Path.of(Names.segmentIndexPath(root.toString(), "billing"));
    }

    @Test
    void segmentsOutliveTheirProcessAndMakeThePayload() {
        put(6, 0, 3, 1, 2);
        reopen(RING);
        SegmentStore.Content content = store.load();
        KeptPayload kept = content.kept().get(0);
        assertEquals(key, kept.key());
        assertEquals(1000, kept.begunMs());
        assertTrue(kept.reconstruction(0).isReady());
        try (StoredShards shards = store.shards(key)) {
            long size = Rebuild.prove(shards, key.hash());
            byte[] whole = new byte[(int) size];
            shards.payload(size).read(0, whole, 0, whole.length);
            assertArrayEquals(payload, whole);
        }
    }

    @Test
    void savingASegmentAgainChangesNothing() {
        put(0, 0, 1);
        assertEquals(2, store.load().kept().get(0).places().size());
    }

    @Test
    void aCompletePayloadIsRememberedAndItsSegmentsAreGone() throws IOException {
        put(0, 1);
        store.complete(key, 5000, List.of());
        reopen(RING);
        assertEquals(Map.of(key, 5000L), store.load().completions());
        assertEquals(List.of(), store.load().kept());
        assertEquals(List.of(), names(".shards"));
        store.forget(List.of(key));
        assertEquals(Map.of(), store.load().completions());
    }

    @Test
    void nothingOfAPayloadIsVisibleOnDisk() throws IOException {
        put(0, 1, 2, 6);
        store.close();
        byte[] clear = Arrays.copyOf(payload, 16);
        String hash = HexFormat.of().formatHex(key.hash());
        try (Stream<Path> files = Files.walk(index().getParent())) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                String bytes = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
                assertFalse(bytes.contains(new String(clear, StandardCharsets.ISO_8859_1)), file.toString());
                assertFalse(bytes.contains(new String(key.hash(), StandardCharsets.ISO_8859_1)), file.toString());
                assertFalse(bytes.contains("analytics") || file.toString().contains(hash), file.toString());
                assertEquals(
                        "rw-------",
                        java.nio.file.attribute.PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
            }
        }
    }

    @Test
    void aDamagedIndexIsPutAsideAndAnEmptyOneBegun() throws IOException {
        put(0);
        store.close();
        Files.write(
                index(),
                "no database at all, but long enough to be looked at"
                        .repeat(100)
                        .getBytes());
        expectAnew(RING);
        assertEquals(List.of("index.sqlite.damaged"), names(".damaged"));
    }

    @Test
    void anIndexOfAnotherVersionIsPutAside() throws Exception {
        put(0);
        store.close();
        try (var database = DriverManager.getConnection("jdbc:sqlite:" + index());
                var statement = database.createStatement()) {
            statement.execute("PRAGMA user_version=99");
        }
        expectAnew(RING);
    }

    @Test
    void anIndexOfAnotherKeyIsPutAside() {
        put(0);
        expectAnew(new Keyring(List.of(Arrays.copyOf(new byte[] {1}, 32))));
    }

    private void expectAnew(Keyring ring) {
        reopen(ring);
        assertEquals(List.of(), store.load().kept());
        assertEquals(1, store.putAside());
        put(1);
        assertEquals(1, store.load().kept().size());
    }

    @Test
    void aRowThatWasAlteredIsNoneOfOurs() throws Exception {
        put(0);
        store.close();
        try (var database = DriverManager.getConnection("jdbc:sqlite:" + index());
                var statement = database.createStatement()) {
            statement.execute("UPDATE payload SET head = x'00'");
        }
        expectAnew(RING);
    }

    @Test
    void aLockedStoreRefusesAndWorksAgainLater() throws Exception {
        put(0);
        store.close();
        reopen(RING);
        try (var database = DriverManager.getConnection("jdbc:sqlite:" + index());
                var statement = database.createStatement()) {
            statement.execute("BEGIN EXCLUSIVE");
            SegmentStoreException refused = assertThrows(SegmentStoreException.class, () -> put(1));
            assertFalse(refused.isDamaged());
        }
        put(1);
        assertEquals(2, store.load().kept().get(0).places().size());
    }

    @Test
    void aSegmentThatWasAlteredOnDiskIsNotRead() throws IOException {
        put(0);
        Path file = index().resolveSibling(names(".shards").get(0));
        byte[] bytes = Files.readAllBytes(file);
        bytes[100] ^= 1;
        Files.write(file, bytes);
        try (StoredShards shards = store.shards(key)) {
            assertThrows(SegmentStoreException.class, () -> shards.read(0, 0, new byte[10], 0, 10));
        }
    }

    /** L-10. */
    @Test
    void aLinkInPlaceOfTheIndexIsNotFollowed() throws IOException {
        Path victim = Files.createFile(root.resolve("victim"));
        Files.createDirectory(index().getParent());
        Files.createSymbolicLink(index(), victim);
        assertThrows(SegmentStoreException.class, () -> put(0));
        assertEquals(0, Files.size(victim));
    }

    @Test
    void whatEndsAfterTheNodeWritesNothing() {
        put(0);
        store.close();
        assertThrows(SegmentStoreException.class, () -> store.complete(key, 1, List.of()));
    }

    private List<String> names(String suffix) throws IOException {
        try (Stream<Path> files = Files.list(index().getParent())) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith(suffix))
                    .toList();
        }
    }
}
