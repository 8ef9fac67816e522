package speed.internal.fs;

import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import speed.errors.SegmentStoreException;
import speed.errors.WireException;
import speed.internal.segment.Keccak;
import speed.internal.segment.Reconstruction;
import speed.internal.segment.Segment.PayloadKey;
import speed.internal.wire.Block;
import speed.internal.wire.Keyring;
import speed.internal.wire.NodeId;
import speed.internal.wire.PieceAead;

/**
 * Which segments a node holds, of what, and which payloads are complete: a small SQLite file. All that tells
 * anything is sealed; names are made with the key. The tables are those of the Python node, so that a name may move
 * from one language to the other. One process writes it. Not thread-safe. Every method may throw
 * SegmentStoreException.
 */
public final class SegmentIndex implements Closeable {
    private static final int VERSION = 1;
    private static final List<String> TABLES = List.of(
            "CREATE TABLE IF NOT EXISTS setting(name TEXT PRIMARY KEY, value BLOB NOT NULL)",
            "CREATE TABLE IF NOT EXISTS payload(id BLOB PRIMARY KEY, head BLOB NOT NULL)",
            "CREATE TABLE IF NOT EXISTS shard(id BLOB PRIMARY KEY, payload BLOB NOT NULL, head BLOB NOT NULL)",
            "CREATE INDEX IF NOT EXISTS shard_of ON shard(payload)",
            "CREATE TABLE IF NOT EXISTS complete(id BLOB PRIMARY KEY, head BLOB NOT NULL)");
    /**
     * No code of SQLite's at all, PERM, BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL: it may
     * work the next time.
     */
    private static final Set<Integer> PASSING = Set.of(0, 3, 5, 6, 7, 8, 9, 10, 13, 14, 15);

    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int PLACE_BYTES = 21;

    /** Something done with the database. */
    private interface Work<T> {
        T run() throws SQLException;
    }

    private final byte[] node;
    private final Keyring keyring;
    private final Connection database;
    private byte[] keyId;
    private PieceAead aead;

    /** Opens or makes it. The directory is private. */
    SegmentIndex(String path, String name, Keyring keyring, boolean durable) {
        this.node = NodeId.of(name).bytes();
        this.keyring = keyring.frozen(); // it goes on with the key that it was opened with
        database = translated(
                () -> DriverManager.getConnection("jdbc:sqlite:" + Path.of(path).toUri()));
        try {
            prepare(durable);
        } catch (RuntimeException failure) {
            close();
            throw failure;
        }
    }

    private void prepare(boolean durable) {
        translated(() -> {
            execute("PRAGMA busy_timeout=0");
            execute("PRAGMA locking_mode=EXCLUSIVE");
            execute("PRAGMA journal_mode=PERSIST");
            execute("PRAGMA synchronous=" + (durable ? "FULL" : "OFF"));
            int version = version();
            if (version != 0 && version != VERSION) {
                throw damaged("has version " + version + "; this is version " + VERSION);
            }
            writing(() -> {
                for (String table : TABLES) {
                    execute(table);
                }
                update("INSERT OR IGNORE INTO setting VALUES ('key', ?)", keyring.keyId());
                execute("PRAGMA user_version=" + VERSION);
                return null;
            });
            keyId = rows("SELECT value FROM setting WHERE name='key'").get(0)[0];
            return null;
        });
        try {
            aead = aead(node);
        } catch (WireException unknown) {
            throw damaged("was sealed with another key");
        }
    }

    private int version() throws SQLException {
        try (Statement statement = database.createStatement();
                ResultSet result = statement.executeQuery("PRAGMA user_version")) {
            return result.next() ? result.getInt(1) : 0;
        }
    }

    // --- names and keys ---

    /** The name of a payload in files and tables. */
    byte[] idOf(PayloadKey key) {
        return keyring.segmentsId(
                keyId,
                head(1 + Keccak.HASH_BYTES, key)
                        .put((byte) key.kind())
                        .put(key.hash())
                        .put(sender(key))
                        .array());
    }

    /** Seals the segments of one payload. */
    PieceAead aeadOf(byte[] payloadId) {
        return aead(joined(node, payloadId));
    }

    private PieceAead aead(byte[] info) {
        return new PieceAead(keyring.segmentsKey(keyId, info), RANDOM::nextBytes);
    }

    // --- what is written ---

    /** Notes a segment whose bytes are in place; noting it again changes nothing. */
    void add(Reconstruction one, long begunMs, SegmentPlace place) {
        PayloadKey key = one.key();
        byte[] payload = idOf(key);
        byte[] head = head(3 + Double.BYTES + Keccak.HASH_BYTES, key)
                .put((byte) key.kind())
                .put((byte) one.dataCount())
                .put((byte) one.parityCount())
                .putDouble(begunMs / 1e3)
                .put(key.hash())
                .put(sender(key))
                .array();
        byte[] shard = keyring.segmentsId(keyId, joined(payload, new byte[] {(byte) place.slot()}));
        byte[] where = ByteBuffer.allocate(PLACE_BYTES)
                .put((byte) place.slot())
                .putInt(place.size())
                .putLong(place.offset())
                .putDouble(place.atMs() / 1e3)
                .array();
        writing(() -> {
            update("INSERT OR IGNORE INTO payload VALUES (?, ?)", payload, sealed(head, payload));
            update("INSERT OR REPLACE INTO shard VALUES (?, ?, ?)", shard, payload, sealed(where, shard));
            return null;
        });
    }

    /** Forgets a payload that is not complete. */
    void remove(PayloadKey key) {
        writing(() -> {
            removeRows(idOf(key));
            return null;
        });
    }

    /** Notes that a payload was delivered, and forgets others that were. */
    void complete(PayloadKey key, long atMs, List<PayloadKey> forgotten) {
        byte[] payload = idOf(key);
        byte[] head = head(1 + Double.BYTES + Keccak.HASH_BYTES, key)
                .put((byte) key.kind())
                .putDouble(atMs / 1e3)
                .put(key.hash())
                .put(sender(key))
                .array();
        writing(() -> {
            removeRows(payload);
            update("INSERT OR REPLACE INTO complete VALUES (?, ?)", payload, sealed(head, payload));
            forgetRows(forgotten);
            return null;
        });
    }

    /** Forgets payloads that were delivered. */
    void forget(List<PayloadKey> keys) {
        writing(() -> {
            forgetRows(keys);
            return null;
        });
    }

    private void removeRows(byte[] payload) throws SQLException {
        update("DELETE FROM shard WHERE payload=?", payload);
        update("DELETE FROM payload WHERE id=?", payload);
    }

    private void forgetRows(List<PayloadKey> keys) throws SQLException {
        for (PayloadKey key : keys) {
            update("DELETE FROM complete WHERE id=?", idOf(key));
        }
    }

    // --- what is read ---

    /** All payloads that are not complete. */
    List<KeptPayload> payloads() {
        return translated(() -> {
            List<KeptPayload> kept = new ArrayList<>();
            for (byte[][] row : rows("SELECT id, head FROM payload")) {
                kept.add(kept(row[0], row[1]));
            }
            return kept;
        });
    }

    /** One payload that is not complete, null if nothing is kept of it. */
    KeptPayload payload(PayloadKey key) {
        return translated(() -> {
            byte[] payload = idOf(key);
            List<byte[][]> found = rows("SELECT head FROM payload WHERE id=?", payload);
            return found.isEmpty() ? null : kept(payload, found.get(0)[0]);
        });
    }

    /** All payloads that were delivered, and when in Unix ms. */
    Map<PayloadKey, Long> completions() {
        return translated(() -> {
            Map<PayloadKey, Long> completions = new LinkedHashMap<>();
            for (byte[][] row : rows("SELECT id, head FROM complete")) {
                ByteBuffer head = opened(row[1], row[0]);
                int kind = head.get();
                long atMs = Math.round(head.getDouble() * 1e3);
                completions.put(key(kind, head), atMs);
            }
            return completions;
        });
    }

    private KeptPayload kept(byte[] payload, byte[] sealed) throws SQLException {
        ByteBuffer head = opened(sealed, payload);
        int kind = head.get();
        int dataCount = head.get() & 0xFF;
        int parityCount = head.get() & 0xFF;
        long begunMs = Math.round(head.getDouble() * 1e3);
        List<SegmentPlace> places = new ArrayList<>();
        for (byte[][] row : rows("SELECT id, head FROM shard WHERE payload=?", payload)) {
            ByteBuffer place = opened(row[1], row[0]);
            places.add(new SegmentPlace(
                    place.get() & 0xFF, place.getInt(), place.getLong(), Math.round(place.getDouble() * 1e3)));
        }
        return new KeptPayload(key(kind, head), dataCount, parityCount, begunMs, places);
    }

    // --- rows ---

    private static ByteBuffer head(int fixedBytes, PayloadKey key) {
        return ByteBuffer.allocate(fixedBytes + sender(key).length);
    }

    private static byte[] sender(PayloadKey key) {
        return key.sender().getBytes(StandardCharsets.UTF_8);
    }

    private static PayloadKey key(int kind, ByteBuffer head) {
        byte[] hash = new byte[Keccak.HASH_BYTES];
        head.get(hash);
        return new PayloadKey(StandardCharsets.UTF_8.decode(head).toString(), kind, hash);
    }

    private byte[] sealed(byte[] head, byte[] name) {
        Block block = new Block(PieceAead.OVERHEAD + head.length);
        return block.copy(0, aead.seal(block, 0, head, 0, head.length, name));
    }

    private ByteBuffer opened(byte[] sealed, byte[] name) {
        Block block = Block.of(sealed.length == 0 ? new byte[1] : sealed);
        int begin = aead.open(block, 0, sealed.length, name);
        return ByteBuffer.wrap(block.copy(begin, sealed.length - PieceAead.OVERHEAD));
    }

    private static byte[] joined(byte[] first, byte[] second) {
        byte[] both = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, both, first.length, second.length);
        return both;
    }

    // --- SQLite ---

    private void execute(String sql) throws SQLException {
        try (Statement statement = database.createStatement()) {
            statement.execute(sql);
        }
    }

    private void update(String sql, byte[]... values) throws SQLException {
        try (PreparedStatement statement = database.prepareStatement(sql)) {
            for (int index = 0; index < values.length; index++) {
                statement.setBytes(index + 1, values[index]);
            }
            statement.executeUpdate();
        }
    }

    private List<byte[][]> rows(String sql, byte[]... values) throws SQLException {
        try (PreparedStatement statement = database.prepareStatement(sql)) {
            for (int index = 0; index < values.length; index++) {
                statement.setBytes(index + 1, values[index]);
            }
            List<byte[][]> rows = new ArrayList<>();
            try (ResultSet result = statement.executeQuery()) {
                while (result.next()) {
                    byte[][] row = new byte[result.getMetaData().getColumnCount()][];
                    for (int column = 0; column < row.length; column++) {
                        row[column] = result.getBytes(column + 1);
                    }
                    rows.add(row);
                }
            }
            return rows;
        }
    }

    private <T> T writing(Work<T> work) {
        return translated(() -> {
            execute("BEGIN IMMEDIATE");
            try {
                T result = work.run();
                execute("COMMIT");
                return result;
            } catch (SQLException | RuntimeException failure) {
                execute("ROLLBACK");
                throw failure;
            }
        });
    }

    private static <T> T translated(Work<T> work) {
        try {
            return work.run();
        } catch (SQLException error) {
            boolean passes = PASSING.contains(error.getErrorCode() & 0xFF);
            throw passes
                    ? new SegmentStoreException("the segment store cannot be used now: " + error.getMessage(), false)
                    : damaged("is damaged: " + error.getMessage());
        } catch (LinkageError missing) {
            throw new SegmentStoreException(
                    "the segment store cannot be used: SQLite's library cannot be loaded", false);
        } catch (WireException | java.nio.BufferUnderflowException | IndexOutOfBoundsException broken) {
            throw damaged("is damaged: a row is not what was written");
        }
    }

    private static SegmentStoreException damaged(String how) {
        return new SegmentStoreException("the segment store " + how, true);
    }

    @Override
    public void close() {
        try {
            database.close();
        } catch (SQLException kept) {
            // what was committed is in the file, and nothing else is to be done
        }
    }

    /**
     * Where a segment's bytes lie in the file of its payload.
     *
     * @param slot of the payload
     * @param size of the segment in bytes
     * @param offset of its first sealed block
     * @param atMs when it came, in Unix ms
     */
    record SegmentPlace(int slot, int size, long offset, long atMs) {}

    /** A payload that is not complete, as the store has it; {@code begunMs} is Unix time. */
    public record KeptPayload(PayloadKey key, int dataCount, int parityCount, long begunMs, List<SegmentPlace> places) {
        /** What is held of it, on another clock that shows {@code passedMs} more than Unix time. */
        public Reconstruction reconstruction(long passedMs) {
            Reconstruction one = new Reconstruction(key, dataCount, parityCount, begunMs + passedMs);
            places.forEach(place -> one.hold(place.slot(), place.size(), place.atMs() + passedMs));
            return one;
        }
    }
}
