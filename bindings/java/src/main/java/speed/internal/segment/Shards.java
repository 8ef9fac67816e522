package speed.internal.segment;

/** The segments held of one payload, by slot; recovered ones are written beside them. For one thread at a time. */
public interface Shards {
    /** Columns are read in multiples of this: a store that seals blocks of this size opens each of them once. */
    int COLUMN_UNIT = 1 << 15;

    /**
     * Data segments of the payload.
     *
     * @return from 1
     */
    int dataCount();

    /**
     * Parity segments of the payload.
     *
     * @return from 0
     */
    int parityCount();

    /**
     * Bytes of every data segment but the last.
     *
     * @return from 0
     */
    int segmentSize();

    /**
     * Whether a slot is held.
     *
     * @param slot of the payload
     * @return true also for one that was recovered
     */
    boolean holds(int slot);

    /**
     * Bytes in a slot.
     *
     * @param slot one that is held
     * @return from 0
     */
    int sizeOf(int slot);

    /**
     * Copies a part of a segment.
     *
     * @param slot one that is held
     * @param begin where the part begins in the segment
     * @param into takes it
     * @param at where it begins there
     * @param count how many bytes
     */
    void read(int slot, int begin, byte[] into, int at, int count);

    /**
     * Puts a part of a recovered segment in place.
     *
     * @param slot one that was lost
     * @param begin where the part begins in the segment, a multiple of {@link #COLUMN_UNIT}
     * @param from holds it
     * @param count how many bytes
     */
    void write(int slot, int begin, byte[] from, int count);

    /**
     * The payload of segments that are all there.
     *
     * @param size of the payload
     * @return reads from here
     */
    default Source payload(long size) {
        return new Source() {
            @Override
            public long size() {
                return size;
            }

            @Override
            public void read(long from, byte[] into, int at, int count) {
                for (int done = 0; done < count; ) {
                    int slot = (int) ((from + done) / segmentSize());
                    int begin = (int) ((from + done) % segmentSize());
                    int step = Math.min(count - done, segmentSize() - begin);
                    Shards.this.read(slot, begin, into, at + done, step);
                    done += step;
                }
            }
        };
    }
}
