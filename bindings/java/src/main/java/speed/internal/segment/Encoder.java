package speed.internal.segment;

import static speed.internal.segment.Segment.SHARD_UNIT;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import speed.internal.segment.Field.Factor;

/**
 * Makes the parity of one shape: the bytes of Leopard-RS. Every unit of columns stands for itself, so a
 * payload of any size is encoded in slices, in bounded memory. Not thread-safe.
 */
final class Encoder {
    /** Bytes transformed at a time: they stay in a core's cache. */
    private static final int SLICE_BYTES = 1 << 18;

    private final int dataCount;
    private final int parityCount;
    private final int run;
    private final int width;
    private final Field field;
    private final Map<Integer, Factor> factors = new HashMap<>();
    private byte[][] work = new byte[0][];

    Encoder(int dataCount, int parityCount) {
        this.dataCount = dataCount;
        this.parityCount = parityCount;
        run = Field.runOf(parityCount);
        width = Math.max(SLICE_BYTES / run / SHARD_UNIT, 4) * SHARD_UNIT;
        field = Field.of(dataCount, parityCount);
    }

    Field field() {
        return field;
    }

    /**
     * Makes parity of the first columns of the data shards.
     *
     * @param shards one row a data shard; null is a shard of zeros
     * @param parity takes the parity, a row a shard
     * @param columns a multiple of 64
     */
    void encode(byte[][] shards, byte[][] parity, int columns) {
        if (parityCount == 1 || dataCount == 1) {
            xor(shards, parity, columns);
            return;
        }
        if (work.length == 0) {
            work = new byte[2 * run][width];
        }
        for (int begin = 0; begin < columns; begin += width) {
            encodeSlice(shards, parity, begin, Math.min(width, columns - begin));
        }
    }

    private void encodeSlice(byte[][] shards, byte[][] parity, int begin, int columns) {
        for (int row = 0; row < run; row++) {
            Arrays.fill(total(row), 0, columns, (byte) 0);
        }
        for (int first = 0; first < dataCount; first += run) {
            int count = load(shards, first, begin, columns);
            intoBasis(first, count, columns);
            for (int row = 0; row < run; row++) {
                Factor.add(total(row), work[row], columns);
            }
        }
        outOfBasis(columns);
        for (int row = 0; row < parityCount; row++) {
            System.arraycopy(total(row), 0, parity[row], begin, columns);
        }
    }

    private void xor(byte[][] shards, byte[][] parity, int columns) {
        Arrays.fill(parity[0], 0, columns, (byte) 0);
        for (byte[] shard : shards) {
            if (shard != null) {
                Factor.add(parity[0], shard, columns);
            }
        }
        for (int row = 1; row < parityCount; row++) {
            System.arraycopy(parity[0], 0, parity[row], 0, columns);
        }
    }

    private byte[] total(int row) {
        return work[run + row];
    }

    /** Copies a run of shards, behind the last one zeros; returns how many there are. */
    private int load(byte[][] shards, int first, int begin, int columns) {
        int count = Math.min(run, dataCount - first);
        for (int row = 0; row < run; row++) {
            if (row < count && shards[first + row] != null) {
                System.arraycopy(shards[first + row], begin, work[row], 0, columns);
            } else {
                Arrays.fill(work[row], 0, columns, (byte) 0);
            }
        }
        return count;
    }

    private void intoBasis(int first, int count, int columns) {
        for (int distance = 1; distance < run; distance *= 2) {
            for (int at = 0; at < count; at += 2 * distance) {
                Factor factor = factor(field.skew(run - 1 + first + at + distance));
                for (int row = at; row < at + distance; row++) {
                    Factor.add(work[row + distance], work[row], columns);
                    addProduct(factor, work[row], work[row + distance], columns);
                }
            }
        }
    }

    private void outOfBasis(int columns) {
        for (int distance = run / 2; distance > 0; distance /= 2) {
            for (int at = 0; at < parityCount; at += 2 * distance) {
                Factor factor = factor(field.skew(at + distance - 1));
                for (int row = at; row < at + distance; row++) {
                    addProduct(factor, total(row), total(row + distance), columns);
                    Factor.add(total(row + distance), total(row), columns);
                }
            }
        }
    }

    private static void addProduct(Factor factor, byte[] target, byte[] shard, int columns) {
        if (factor != null) {
            factor.addProduct(target, shard, columns);
        }
    }

    /** Null for the factor 0. */
    private Factor factor(int logarithm) {
        return logarithm == field.order ? null : factors.computeIfAbsent(logarithm, any -> Factor.of(field, logarithm));
    }
}
