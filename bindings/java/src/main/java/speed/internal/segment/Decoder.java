package speed.internal.segment;

import static speed.internal.segment.Segment.SHARD_UNIT;

import java.util.Arrays;
import speed.internal.segment.Field.Factor;

/** Finds the missing data shards of one shape from as many parity shards. Not thread-safe. */
final class Decoder {
    private final Encoder encoder;
    private final Field field;
    private final int[] parity;
    private final int[][] solution;
    private final int parityCount;
    private byte[][] sums = new byte[0][];

    /**
     * A decoder of one pattern of losses.
     *
     * @param missing indexes of data shards
     * @param parity indexes of the parity shards at hand, as many
     */
    Decoder(int dataCount, int parityCount, int[] missing, int[] parity) {
        this.parityCount = parityCount;
        this.parity = parity;
        encoder = new Encoder(dataCount, parityCount);
        field = encoder.field();
        solution = inverse(matrix(dataCount, missing));
    }

    /**
     * Finds the first columns of the missing shards.
     *
     * @param shards one row a data shard; null where it is missing
     * @param held the parity shards at hand
     * @param found takes the missing shards, in the order asked for
     * @param columns a multiple of 64
     */
    void decode(byte[][] shards, byte[][] held, byte[][] found, int columns) {
        if (sums.length == 0 || sums[0].length < columns) {
            sums = new byte[parityCount][columns];
        }
        encoder.encode(shards, sums, columns);
        for (int row = 0; row < parity.length; row++) {
            Factor.add(sums[parity[row]], held[row], columns);
        }
        for (int row = 0; row < parity.length; row++) {
            Arrays.fill(found[row], 0, columns, (byte) 0);
            for (int column = 0; column < parity.length; column++) {
                int element = solution[row][column];
                if (element != 0) {
                    Factor.of(field, field.log(element)).addProduct(found[row], sums[parity[column]], columns);
                }
            }
        }
    }

    /** The part of the generator that leads from the missing shards to the parity at hand. */
    private int[][] matrix(int dataCount, int[] missing) {
        int wordsAUnit = field.isWide() ? SHARD_UNIT / 2 : SHARD_UNIT;
        int columns = (dataCount + wordsAUnit - 1) / wordsAUnit * SHARD_UNIT;
        byte[][] unit = new byte[dataCount][];
        for (int index : missing) {
            unit[index] = new byte[columns];
            unit[index][place(index, wordsAUnit)] = 1;
        }
        byte[][] rows = new byte[parityCount][columns];
        encoder.encode(unit, rows, columns);
        int[][] matrix = new int[parity.length][missing.length];
        for (int row = 0; row < parity.length; row++) {
            for (int column = 0; column < missing.length; column++) {
                matrix[row][column] = element(rows[parity[row]], place(missing[column], wordsAUnit));
            }
        }
        return matrix;
    }

    private static int place(int word, int wordsAUnit) {
        return word / wordsAUnit * SHARD_UNIT + word % wordsAUnit;
    }

    private int element(byte[] row, int place) {
        int high = field.isWide() ? (row[place + SHARD_UNIT / 2] & 0xFF) << 8 : 0;
        return high | row[place] & 0xFF;
    }

    /** The inverse of a regular matrix, by elimination. */
    private int[][] inverse(int[][] matrix) {
        int size = matrix.length;
        int[][] rows = new int[size][];
        for (int row = 0; row < size; row++) {
            rows[row] = Arrays.copyOf(matrix[row], 2 * size);
            rows[row][size + row] = 1;
        }
        for (int at = 0; at < size; at++) {
            int pivot = at;
            while (rows[pivot][at] == 0) {
                pivot++;
            }
            int[] chosen = rows[pivot];
            rows[pivot] = rows[at];
            rows[at] = times(chosen, field.inverse(chosen[at]));
            eliminate(rows, at);
        }
        for (int row = 0; row < size; row++) {
            rows[row] = Arrays.copyOfRange(rows[row], size, 2 * size);
        }
        return rows;
    }

    private void eliminate(int[][] rows, int at) {
        for (int row = 0; row < rows.length; row++) {
            if (row != at && rows[row][at] != 0) {
                int[] part = times(rows[at], field.log(rows[row][at]));
                for (int column = 0; column < part.length; column++) {
                    rows[row][column] ^= part[column];
                }
            }
        }
    }

    private int[] times(int[] row, int logarithm) {
        int[] product = new int[row.length];
        for (int column = 0; column < row.length; column++) {
            product[column] = field.multiply(row[column], logarithm);
        }
        return product;
    }
}
