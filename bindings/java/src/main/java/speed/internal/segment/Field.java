package speed.internal.segment;

import static speed.internal.segment.Segment.SHARD_UNIT;

/**
 * One of the two fields of the parity, with the tables that everything else is made from. Immutable.
 * {@code order} is the logarithm that stands for the factor 0.
 */
final class Field {
    private static final int BYTE_BITS = 8;
    private static final int WIDE_BITS = 16;
    private static final int[] BYTE_BASIS = {1, 214, 152, 146, 86, 200, 88, 230};
    private static final int[] WIDE_BASIS = {
        0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012,
        0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E
    };

    /** Made at first use. */
    private static final class Bytes {
        static final Field FIELD = new Field(BYTE_BITS, 0x11D, BYTE_BASIS);
    }

    private static final class Wide {
        static final Field FIELD = new Field(WIDE_BITS, 0x1002D, WIDE_BASIS);
    }

    final int bits;
    final int order;
    private final int[] log;
    private final int[] exp;
    private final int[] skew;

    private Field(int bits, int polynomial, int[] basis) {
        this.bits = bits;
        order = (1 << bits) - 1;
        log = logarithms(polynomial, basis);
        exp = new int[order + 1];
        for (int element = 0; element <= order; element++) {
            exp[log[element]] = element;
        }
        exp[order] = exp[0];
        skew = skews();
    }

    /** The field in which the parity of a shape is made. */
    static Field of(int dataCount, int parityCount) {
        return runOf(parityCount) + dataCount <= 1 << BYTE_BITS ? Bytes.FIELD : Wide.FIELD;
    }

    /** Shards that are transformed together: the least power of two that holds the parity. */
    static int runOf(int parityCount) {
        return parityCount <= 1 ? 1 : Integer.highestOneBit(parityCount - 1) << 1;
    }

    boolean isWide() {
        return bits == WIDE_BITS;
    }

    /** The logarithm of the skew at a place of the transform. */
    int skew(int at) {
        return skew[at];
    }

    /** The logarithm of an element that is not 0. */
    int log(int element) {
        return log[element];
    }

    /** An element times the one with this logarithm. */
    int multiply(int element, int logarithm) {
        return element == 0 ? 0 : exp[added(log[element], logarithm)];
    }

    /** The logarithm of 1 / element, which is not 0. */
    int inverse(int element) {
        return (order - log[element]) % order;
    }

    /** The sum of two logarithms, of which one may stand for 0. */
    private int added(int left, int right) {
        int sum = left + right;
        return sum + (sum >> bits) & order;
    }

    private int[] logarithms(int polynomial, int[] basis) {
        int[] power = new int[order + 1];
        int state = 1;
        for (int exponent = 0; exponent < order; exponent++) {
            power[state] = exponent;
            state <<= 1;
            state ^= state > order ? polynomial : 0;
        }
        power[0] = order;
        int[] element = new int[order + 1];
        int[] result = new int[order + 1];
        for (int place = 0; place < bits; place++) {
            for (int low = 0; low < 1 << place; low++) {
                element[(1 << place) + low] = element[low] ^ basis[place];
            }
        }
        for (int vector = 0; vector <= order; vector++) {
            result[vector] = power[element[vector]];
        }
        return result;
    }

    private int[] skews() {
        int[] elements = new int[order + 1];
        int[] factor = new int[bits - 1];
        for (int place = 0; place < bits - 1; place++) {
            factor[place] = 1 << place + 1;
        }
        for (int level = 0; level < bits - 1; level++) {
            spread(elements, factor, level);
            factor[level] = order - log[multiply(factor[level], log[factor[level] ^ 1])];
            for (int place = level + 1; place < bits - 1; place++) {
                factor[place] = multiply(factor[place], added(log[factor[place] ^ 1], factor[level]));
            }
        }
        for (int at = 0; at <= order; at++) {
            elements[at] = log[elements[at]];
        }
        return elements;
    }

    private void spread(int[] elements, int[] factor, int level) {
        elements[(1 << level) - 1] = 0;
        for (int place = level; place < bits - 1; place++) {
            int width = 1 << place + 1;
            for (int at = (1 << level) - 1; at < width; at += 1 << level + 1) {
                elements[at + width] = elements[at] ^ factor[place];
            }
        }
    }

    /** One element of a field that whole shards are multiplied with, by tables. Immutable. */
    static final class Factor {
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
}
