package speed.internal.segment;

import java.util.Arrays;
import java.util.stream.IntStream;
import speed.errors.WireException;
import speed.internal.wire.Limits;

/** One payload put together from enough of its segments, and proven by its hash. */
public final class Rebuild {
    /** Data read at a time to decode, about. */
    private static final int COLUMN_BYTES = 1 << 22;

    private static final int STEP_BYTES = 1 << 18;
    /** Of the payload, for each further length that is tried. */
    private static final int BYTES_A_TRIAL = 128;

    private static final byte[] ZEROS = new byte[1 << 12];

    private final Shards shards;
    private final byte[] hash;
    private final int last;
    private final int size;
    private final Keccak keccak = new Keccak();
    private final byte[] step;

    private Rebuild(Shards shards, byte[] hash) {
        this.shards = shards;
        this.hash = hash;
        last = shards.dataCount() - 1;
        size = shards.segmentSize();
        step = new byte[Math.min(size, STEP_BYTES)];
    }

    /**
     * Recovers the data segments that are missing, and proves the payload.
     *
     * @param shards at least as many as there are data segments
     * @param hash that the payload must have
     * @return the payload's size in bytes
     * @throws WireException SEGMENT_HASH when these are not segments of a payload with this hash
     */
    public static long prove(Shards shards, byte[] hash) {
        return new Rebuild(shards, hash).prove();
    }

    private long prove() {
        boolean isLengthKnown = shards.holds(last);
        recover();
        for (int index = 0; index < last; index++) {
            feed(index, size);
        }
        int length = isLengthKnown ? shards.sizeOf(last) : recoveredLength();
        if (isLengthKnown) {
            feed(last, length);
            if (!isProven()) {
                throw new WireException("SEGMENT_HASH", "what was put together is not what its hash says");
            }
        }
        return (long) last * size + length;
    }

    private boolean isProven() {
        return Arrays.equals(keccak.digest(), hash);
    }

    // --- missing data ---

    private void recover() {
        int[] missing = IntStream.rangeClosed(0, last)
                .filter(slot -> !shards.holds(slot))
                .toArray();
        if (missing.length > 0) {
            int[] parity = IntStream.range(last + 1, last + 1 + shards.parityCount())
                    .filter(shards::holds)
                    .limit(missing.length)
                    .toArray();
            recover(missing, parity);
        }
    }

    /** Some columns at a time: what is held of the data, and as much parity as data is missing. */
    private void recover(int[] missing, int[] parity) {
        int[] numbers = Arrays.stream(parity).map(slot -> slot - last - 1).toArray();
        Decoder decoder = new Decoder(last + 1, shards.parityCount(), missing, numbers);
        int[] slots = IntStream.rangeClosed(0, last).toArray();
        int width = Math.min(size, Math.max(COLUMN_BYTES / (last + 1) / Shards.COLUMN_UNIT, 1) * Shards.COLUMN_UNIT);
        byte[][] data = Arrays.stream(slots)
                .mapToObj(slot -> shards.holds(slot) ? new byte[width] : null)
                .toArray(byte[][]::new);
        byte[][] held = new byte[parity.length][width];
        byte[][] found = new byte[missing.length][width];
        for (int begin = 0; begin < size; begin += width) {
            int columns = Math.min(width, size - begin);
            read(slots, begin, data, columns);
            read(parity, begin, held, columns);
            decoder.decode(data, held, found, columns);
            for (int row = 0; row < missing.length; row++) {
                shards.write(missing[row], begin, found[row], columns);
            }
        }
    }

    private void read(int[] slots, int begin, byte[][] rows, int columns) {
        for (int row = 0; row < slots.length; row++) {
            read(slots[row], begin, rows[row], columns);
        }
    }

    /** A shorter last segment counts as filled with zeros; a row that is null is not held. */
    private void read(int slot, int begin, byte[] row, int columns) {
        if (row != null) {
            int there = Math.max(0, Math.min(columns, shards.sizeOf(slot) - begin));
            if (there > 0) {
                shards.read(slot, begin, row, 0, there);
            }
            Arrays.fill(row, there, columns, (byte) 0);
        }
    }

    // --- the length of a lost last segment ---

    /** The first length that the hash proves; each trial costs one permutation. */
    private int recoveredLength() {
        int length = Math.max(endOfBytes(), last == 0 ? 0 : 1);
        feed(last, length);
        long trials = Limits.MIN_LENGTH_TRIALS + (last + 1L) * size / BYTES_A_TRIAL;
        int most = (int) Math.min(size, length + trials);
        for (; length < most; length++) {
            if (isProven()) {
                return length;
            }
            keccak.update(ZEROS, 0, 1);
        }
        feedZeros(size - most);
        if (!isProven()) {
            throw new WireException("SEGMENT_HASH", "no length of the lost last segment has this hash");
        }
        return size;
    }

    /** The position behind the last byte that is not zero. */
    private int endOfBytes() {
        for (int end = size; end > 0; ) {
            int count = (end - 1) % step.length + 1;
            shards.read(last, end - count, step, 0, count);
            for (int at = count; at > 0; at--) {
                if (step[at - 1] != 0) {
                    return end - count + at;
                }
            }
            end -= count;
        }
        return 0;
    }

    private void feed(int slot, int count) {
        for (int at = 0; at < count; at += step.length) {
            int part = Math.min(step.length, count - at);
            shards.read(slot, at, step, 0, part);
            keccak.update(step, 0, part);
        }
    }

    private void feedZeros(int count) {
        for (int left = count; left > 0; left -= ZEROS.length) {
            keccak.update(ZEROS, 0, Math.min(left, ZEROS.length));
        }
    }
}
