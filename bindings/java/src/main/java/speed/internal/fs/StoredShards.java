package speed.internal.fs;

import java.io.Closeable;
import java.util.HashMap;
import java.util.Map;
import speed.errors.SegmentStoreException;
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
}
