package speed.internal.segment;

import static speed.internal.segment.Segment.SHARD_UNIT;

/** One element of a field that whole shards are multiplied with, by tables. Immutable. */
final class Factor {
    private static final int HALF_UNIT = SHARD_UNIT / 2;
    private static final int BYTE_VALUES = 256;

    /** Those of the field of bytes, once for all. */
    private static final Factor[] OF_BYTES = new Factor[BYTE_VALUES];

    private final byte[] products;
    private final char[] lowProducts;
    private final char[] highProducts;

    private Factor(Field field, int logarithm) {
        products = field.isWide() ? null : new byte[BYTE_VALUES];
        lowProducts = field.isWide() ? new char[BYTE_VALUES] : null;
        highProducts = field.isWide() ? new char[BYTE_VALUES] : null;
        for (int value = 0; value < BYTE_VALUES; value++) {
            if (field.isWide()) {
                lowProducts[value] = (char) field.multiply(value, logarithm);
                highProducts[value] = (char) field.multiply(value << 8, logarithm);
            } else {
                products[value] = (byte) field.multiply(value, logarithm);
            }
        }
    }

    /** The element with a logarithm. */
    static Factor of(Field field, int logarithm) {
        if (field.isWide()) {
            return new Factor(field, logarithm);
        }
        Factor known = OF_BYTES[logarithm];
        if (known == null) {
            known = new Factor(field, logarithm);
            OF_BYTES[logarithm] = known; // whichever thread is last: all are equal
        }
        return known;
    }

    /** {@code target ^= this * shard} over the first columns. */
    void addProduct(byte[] target, byte[] shard, int columns) {
        if (products != null) {
            addByteProduct(products, target, shard, columns);
        } else {
            addWideProduct(lowProducts, highProducts, target, shard, columns);
        }
    }

    private static void addByteProduct(byte[] products, byte[] target, byte[] shard, int columns) {
        for (int at = 0; at < columns; at++) {
            target[at] ^= products[shard[at] & 0xFF];
        }
    }

    /** Each unit holds the low bytes of its words, then their high bytes. */
    private static void addWideProduct(char[] low, char[] high, byte[] target, byte[] shard, int columns) {
        for (int unit = 0; unit < columns; unit += SHARD_UNIT) {
            for (int at = unit; at < unit + HALF_UNIT; at++) {
                int product = low[shard[at] & 0xFF] ^ high[shard[at + HALF_UNIT] & 0xFF];
                target[at] ^= (byte) product;
                target[at + HALF_UNIT] ^= (byte) (product >> 8);
            }
        }
    }

    /** {@code target ^= shard} over the first columns. */
    static void add(byte[] target, byte[] shard, int columns) {
        for (int at = 0; at < columns; at++) {
            target[at] ^= shard[at];
        }
    }
}
