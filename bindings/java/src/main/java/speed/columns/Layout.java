package speed.columns;

/** Sizes of the parts of a body. */
final class Layout {
    static final int HEADER_BYTES = 8;
    static final int DECIMAL_BYTES = 16;
    static final int MAX_PRECISION = 38;

    private Layout() {}

    static long filled(long size) {
        return (size + 7) / 8 * 8;
    }

    static long bitBytes(long rows) {
        return (rows + 7) / 8;
    }

    static boolean bit(byte[] body, int at, int row) {
        return (body[at + row / 8] >> row % 8 & 1) != 0;
    }
}
