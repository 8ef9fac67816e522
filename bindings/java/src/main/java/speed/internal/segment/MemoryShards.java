package speed.internal.segment;

/** The segments of one payload, in memory. */
final class MemoryShards implements Shards {
    private final int dataCount;
    private final int parityCount;
    private final byte[][] parts;
    private int segmentSize;

    MemoryShards(int dataCount, int parityCount) {
        this.dataCount = dataCount;
        this.parityCount = parityCount;
        parts = new byte[dataCount + parityCount][];
    }

    void put(Segment segment) {
        parts[segment.slot()] = segment.payload();
        if (!segment.isLastData() || dataCount == 1) {
            segmentSize = segment.payload().length;
        }
    }

    byte[] part(int slot) {
        return parts[slot];
    }

    @Override
    public int dataCount() {
        return dataCount;
    }

    @Override
    public int parityCount() {
        return parityCount;
    }

    @Override
    public int segmentSize() {
        return segmentSize;
    }

    @Override
    public boolean holds(int slot) {
        return parts[slot] != null;
    }

    @Override
    public int sizeOf(int slot) {
        return parts[slot].length;
    }

    @Override
    public void read(int slot, int begin, byte[] into, int at, int count) {
        System.arraycopy(parts[slot], begin, into, at, count);
    }

    @Override
    public void write(int slot, int begin, byte[] from, int count) {
        if (parts[slot] == null) {
            parts[slot] = new byte[segmentSize];
        }
        System.arraycopy(from, 0, parts[slot], begin, count);
    }
}
