package speed.internal.message;

import java.util.Arrays;
import speed.internal.wire.Limits;

/**
 * What a frame of Zstandard must be beside decodable (RFC 8878, section 3.1.1). Its decoders read several frames
 * for one and pass over some, and not all of them look at reserved bits, at the size that a frame states, and at its
 * window.
 */
final class ZstdFrame {
    private static final byte[] MAGIC = {0x28, (byte) 0xb5, 0x2f, (byte) 0xfd};
    private static final int DESCRIPTOR_AT = 4;
    private static final int[] SIZE_BYTES = {0, 2, 4, 8};
    private static final int TWO_BYTES_BEGIN_AT = 256;
    private static final int LEAST_WINDOW_BITS = 10;
    private static final int BLOCK_HEADER_BYTES = 3;
    private static final int MAX_BLOCK_BYTES = 128 << 10;
    private static final int CHECKSUM_BYTES = 4;
    private static final int RUN = 1;
    private static final int COMPRESSED = 2;
    /** The reserved bit, and those that name a dictionary. */
    private static final int REFUSED_IN_DESCRIPTOR = 0b1011;

    private static final int RESERVED_IN_MODES = 0b11;
    private static final int ONE_BYTE_COUNT = 128;
    private static final int TWO_BYTE_COUNT = 255;

    /** The head of the literals of a block: its bytes, where the size lies in them, and how many bits that has. */
    private record Literals(int headBytes, int shift, int bits) {}

    private static final Literals[] PLAIN = {
        new Literals(1, 3, 5), new Literals(2, 4, 12), new Literals(1, 3, 5), new Literals(3, 4, 20)
    };
    /** They state what they hold first, which is passed over. */
    private static final Literals[] PACKED = {
        new Literals(3, 14, 10), new Literals(3, 14, 10), new Literals(4, 18, 14), new Literals(5, 22, 18)
    };

    private final byte[] data;

    private ZstdFrame(byte[] data) {
        this.data = data;
    }

    /**
     * Whether these bytes are one frame, whole and nothing beside it, that states no other size, names no dictionary,
     * sets no reserved bit, and has a window and blocks within the bounds. Else what its blocks hold is not looked at.
     */
    static boolean isOne(byte[] data, int size) {
        return data.length > DESCRIPTOR_AT
                && Arrays.equals(data, 0, MAGIC.length, MAGIC, 0, MAGIC.length)
                && new ZstdFrame(data).isSound(size);
    }

    private boolean isSound(int size) {
        int descriptor = unsigned(DESCRIPTOR_AT);
        int single = descriptor >> 5 & 1;
        int sizeBytes = Math.max(SIZE_BYTES[descriptor >> 6], single);
        int at = DESCRIPTOR_AT + 1 + (1 - single) + sizeBytes;
        if (at > data.length || (descriptor & REFUSED_IN_DESCRIPTOR) != 0 || !states(at - sizeBytes, sizeBytes, size)) {
            return false;
        }
        long window = single == 1 ? size : window(unsigned(DESCRIPTOR_AT + 1));
        return (single == 1 || window <= Limits.MAX_ZSTD_WINDOW_BYTES)
                && endsWell(at, (descriptor >> 2 & 1) * CHECKSUM_BYTES, (int) Math.min(window, MAX_BLOCK_BYTES));
    }

    /** Bytes of the window that a descriptor states; of a frame without one the content is the window. */
    private static long window(int descriptor) {
        long base = 1L << LEAST_WINDOW_BITS + (descriptor >> 3);
        return base + base / 8 * (descriptor & 7);
    }

    private boolean states(int at, int bytes, int size) {
        return bytes == 0 || littleEndian(at, bytes) + (bytes == 2 ? TWO_BYTES_BEGIN_AT : 0) == size;
    }

    private boolean endsWell(int firstBlock, int checksumBytes, int mostBytes) {
        int at = firstBlock;
        while (at <= data.length - BLOCK_HEADER_BYTES) {
            int header = (int) littleEndian(at, BLOCK_HEADER_BYTES);
            at += BLOCK_HEADER_BYTES;
            int kind = header >> 1 & 3;
            int bytes = header >> 3;
            int end = at + bytes;
            if (bytes > mostBytes || kind == COMPRESSED && hasReservedMode(at, Math.min(end, data.length))) {
                return false;
            }
            at = kind == RUN ? at + 1 : end;
            if ((header & 1) == 1) {
                return at + checksumBytes == data.length;
            }
        }
        return false;
    }

    /** In the modes of its sequences. A block that ends before them is left to the decoder. */
    private boolean hasReservedMode(int block, int end) {
        int at = block < end ? sequencesAt(block, end) : end;
        if (at >= end || data[at] == 0) {
            return false;
        }
        int count = unsigned(at);
        at += count < ONE_BYTE_COUNT ? 1 : count < TWO_BYTE_COUNT ? 2 : 3;
        return at < end && (data[at] & RESERVED_IN_MODES) != 0;
    }

    /** Behind the literals. */
    private int sequencesAt(int block, int end) {
        int kind = data[block] & 3;
        Literals head = (kind >= COMPRESSED ? PACKED : PLAIN)[data[block] >> 2 & 3];
        long size = littleEndian(block, Math.min(head.headBytes, end - block)) >> head.shift & (1L << head.bits) - 1;
        return block + head.headBytes + (kind == RUN ? 1 : (int) size);
    }

    private int unsigned(int at) {
        return data[at] & 0xff;
    }

    private long littleEndian(int at, int bytes) {
        long number = 0;
        for (int index = bytes - 1; index >= 0; index--) {
            number = number << 8 | unsigned(at + index);
        }
        return number;
    }
}
