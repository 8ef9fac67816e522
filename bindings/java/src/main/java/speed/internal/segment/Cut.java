package speed.internal.segment;

import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import speed.internal.segment.Segment.Shape;

/** A payload on its way into segments: data first, then parity, some shards at a time. */
final class Cut implements Iterator<Segment> {
    /** Parity held at a time; what exceeds it is made in further passes over the data. */
    private static final int PARITY_BYTES = 1 << 24;
    /** Data read at a time to make parity. */
    private static final int COLUMN_BYTES = 1 << 22;

    private final Source source;
    private final Shape shape;
    private final byte[] hash;
    private final int group;
    private byte[][] parity = new byte[0][];
    private int next;

    Cut(Source source, Shape shape, byte[] hash) {
        this.source = source;
        this.shape = shape;
        this.hash = hash;
        group = Math.max(1, PARITY_BYTES / shape.segmentSize());
    }

    @Override
    public boolean hasNext() {
        return next < shape.dataCount() + shape.parityCount();
    }

    @Override
    public Segment next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        int slot = next++;
        return slot < shape.dataCount() ? data(slot) : parity(slot - shape.dataCount());
    }

    private Segment data(int index) {
        long begin = (long) index * shape.segmentSize();
        byte[] part = new byte[(int) Math.min(shape.segmentSize(), source.size() - begin)];
        source.read(begin, part, 0, part.length);
        return new Segment(hash, shape.dataCount(), shape.parityCount(), index, false, part);
    }

    private Segment parity(int index) {
        if (index % group == 0) {
            parity = null; // the group before goes before the next comes
            parity = shards(index, Math.min(group, shape.parityCount() - index));
        }
        return new Segment(hash, shape.dataCount(), shape.parityCount(), index, true, parity[index % group]);
    }

    private byte[][] shards(int first, int count) {
        Encoder encoder = new Encoder(shape.dataCount(), shape.parityCount());
        byte[][] shards = new byte[count][shape.segmentSize()];
        int width = Math.max(COLUMN_BYTES / shape.dataCount() / Segment.SHARD_UNIT, 1) * Segment.SHARD_UNIT;
        byte[][] columns = new byte[shape.dataCount()][Math.min(width, shape.segmentSize())];
        byte[][] made = new byte[shape.parityCount()][columns[0].length];
        for (int begin = 0; begin < shape.segmentSize(); begin += width) {
            int size = Math.min(width, shape.segmentSize() - begin);
            read(columns, begin, size);
            encoder.encode(columns, made, size);
            for (int row = 0; row < count; row++) {
                System.arraycopy(made[first + row], 0, shards[row], begin, size);
            }
        }
        return shards;
    }

    /** The last data segment counts as filled with zeros. */
    private void read(byte[][] columns, int begin, int count) {
        for (int index = 0; index < columns.length; index++) {
            long from = (long) index * shape.segmentSize() + begin;
            int there = (int) Math.max(0, Math.min(count, source.size() - from));
            if (there > 0) {
                source.read(from, columns[index], 0, there);
            }
            Arrays.fill(columns[index], there, count, (byte) 0);
        }
    }
}
