package speed.internal.fs;

import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import speed.errors.SegmentStoreException;
import speed.errors.WireException;
import speed.internal.fs.SegmentIndex.KeptPayload;
import speed.internal.fs.SegmentIndex.SegmentPlace;
import speed.internal.segment.Shards;
import speed.internal.wire.Block;
import speed.internal.wire.PieceAead;

/** The segments of one payload in the store; what is recovered is sealed and written behind them. For one thread. */
public final class StoredShards implements Shards, Closeable {
    private final int descriptor;
    private final PieceAead aead;
    private final ShardFile file;
    private ShardFile recovered;
    private final KeptPayload kept;
    private final Map<Integer, SegmentPlace> places = new HashMap<>();
    private int segmentSize;
    private boolean closed;

    StoredShards(int descriptor, PieceAead aead, KeptPayload kept) {
        this.descriptor = descriptor;
        this.kept = kept;
        this.aead = aead;
        file = new ShardFile(descriptor, aead, null);
        for (SegmentPlace place : kept.places()) {
            places.put(place.slot(), place);
            if (place.slot() != kept.dataCount() - 1 || kept.dataCount() == 1) {
                segmentSize = place.size();
            }
        }
    }

    @Override
    public int dataCount() {
        return kept.dataCount();
    }

    @Override
    public int parityCount() {
        return kept.parityCount();
    }

    @Override
    public int segmentSize() {
        return segmentSize;
    }

    @Override
    public boolean holds(int slot) {
        return places.containsKey(slot);
    }

    @Override
    public int sizeOf(int slot) {
        return places.get(slot).size();
    }

    @Override
    public synchronized void read(int slot, int begin, byte[] into, int at, int count) {
        if (closed) {
            throw new SegmentStoreException("the payload can be read until it is done, and it is", false);
        }
        file.read(places.get(slot), begin, into, at, count);
    }

    @Override
    public void write(int slot, int begin, byte[] from, int count) {
        SegmentPlace place = places.computeIfAbsent(slot, any -> new SegmentPlace(slot, segmentSize, end(), 0));
        if (recovered == null) {
            recovered = new ShardFile(descriptor, aead, new Block(ShardFile.WRITE_BYTES));
        }
        try {
            recovered.write(place, begin, from, count);
        } catch (PosixException error) {
            throw new SegmentStoreException("a recovered segment cannot be kept: " + error.getMessage(), false);
        }
    }

    private long end() {
        return places.values().stream().mapToLong(ShardFile::end).max().orElse(0);
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            Posix.close(descriptor);
        }
    }

    /** The file of one payload: segments in sealed blocks. Not thread-safe; the descriptor is not its own. */
    static final class ShardFile {
        private static final int BLOCK_BYTES = Shards.COLUMN_UNIT;
        private static final int SEALED_BYTES = BLOCK_BYTES + PieceAead.OVERHEAD;
        private static final int BLOCKS_A_WRITE = 32;
        /** Room for what goes in one write. */
        static final int WRITE_BYTES = BLOCKS_A_WRITE * SEALED_BYTES;

        private static final int NAME_BYTES = 5;

        private final int descriptor;
        private final PieceAead aead;
        private final Block written;
        private Block read;
        private int openedSlot = -1;
        private int openedBlock = -1;
        private int openedAt;

        /** A file that is written through a block of {@link #WRITE_BYTES}. */
        ShardFile(int descriptor, PieceAead aead, Block written) {
            this.written = written;
            this.descriptor = descriptor;
            this.aead = aead;
        }

        /** Where a segment of some size ends that begins at an offset. */
        static long end(SegmentPlace place) {
            return place.offset() + place.size() + (long) blocks(place.size()) * PieceAead.OVERHEAD;
        }

        private static int blocks(int size) {
            return (size + BLOCK_BYTES - 1) / BLOCK_BYTES;
        }

        /** Seals the first bytes of {@code data} into a segment, from {@code begin} on, a multiple of the block. */
        void write(SegmentPlace place, int begin, byte[] data, int count) throws PosixException {
            for (int done = 0; done < count; done += BLOCKS_A_WRITE * BLOCK_BYTES) {
                int first = (begin + done) / BLOCK_BYTES;
                int end = Math.min(count, done + BLOCKS_A_WRITE * BLOCK_BYTES);
                int filled = 0;
                for (int at = done; at < end; at += BLOCK_BYTES) {
                    byte[] name = name(place.slot(), (begin + at) / BLOCK_BYTES);
                    filled += aead.seal(written, filled, data, at, Math.min(BLOCK_BYTES, end - at), name);
                }
                Posix.writeAll(descriptor, written, filled, place.offset() + (long) first * SEALED_BYTES);
            }
        }

        /** Copies bytes of a segment; SegmentStoreException if they are not what was written. */
        void read(SegmentPlace place, int begin, byte[] into, int at, int count) {
            for (int done = 0; done < count; ) {
                int block = (begin + done) / BLOCK_BYTES;
                int from = (begin + done) % BLOCK_BYTES;
                int step = Math.min(count - done, BLOCK_BYTES - from);
                open(place, block);
                read.bytes.get(openedAt + from, into, at + done, step);
                done += step;
            }
        }

        private void open(SegmentPlace place, int block) {
            if (openedSlot == place.slot() && openedBlock == block) {
                return;
            }
            read = read == null ? new Block(SEALED_BYTES) : read;
            openedSlot = -1;
            int size = Math.min(BLOCK_BYTES, place.size() - block * BLOCK_BYTES) + PieceAead.OVERHEAD;
            try {
                int there = Posix.read(descriptor, read, size, place.offset() + (long) block * SEALED_BYTES);
                openedAt = aead.open(read, 0, there, name(place.slot(), block));
            } catch (PosixException | WireException error) {
                throw new SegmentStoreException("a segment that was kept cannot be read, or is not authentic", false);
            }
            openedSlot = place.slot();
            openedBlock = block;
        }

        private static byte[] name(int slot, int block) {
            return ByteBuffer.allocate(NAME_BYTES)
                    .put((byte) slot)
                    .putInt(block)
                    .array();
        }
    }
}
