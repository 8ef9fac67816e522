package speed.message;

import java.util.Arrays;

/** Where a frame of Zstandard ends (RFC 8878, section 3.1.1): its decoders read several, and pass over some (M-23). */
final class ZstdFrame {
    private static final byte[] MAGIC = {0x28, (byte) 0xb5, 0x2f, (byte) 0xfd};
    private static final int DESCRIPTOR_AT = 4;
    private static final int[] DICTIONARY_BYTES = {0, 1, 2, 4};
    private static final int[] SIZE_BYTES = {0, 2, 4, 8};
    private static final int BLOCK_HEADER_BYTES = 3;
    private static final int CHECKSUM_BYTES = 4;
    private static final int RUN = 1;

    private ZstdFrame() {}

    /** Whether these bytes are one frame, whole, and nothing beside it; what its blocks hold is not looked at. */
    static boolean isOne(byte[] data) {
        if (data.length <= DESCRIPTOR_AT || !Arrays.equals(data, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
            return false;
        }
        int descriptor = data[DESCRIPTOR_AT];
        long at = blocksAt(descriptor);
        while (at + BLOCK_HEADER_BYTES <= data.length) {
            int block = littleEndian(data, (int) at);
            at += BLOCK_HEADER_BYTES + ((block >> 1 & 3) == RUN ? 1 : block >> 3);
            if ((block & 1) == 1) {
                return at + (descriptor >> 2 & 1) * CHECKSUM_BYTES == data.length;
            }
        }
        return false;
    }

    private static int blocksAt(int descriptor) {
        int single = descriptor >> 5 & 1;
        int sizeBytes = Math.max(SIZE_BYTES[descriptor >> 6 & 3], single);
        return DESCRIPTOR_AT + 1 + (1 - single) + DICTIONARY_BYTES[descriptor & 3] + sizeBytes;
    }

    private static int littleEndian(byte[] data, int at) {
        return data[at] & 0xff | (data[at + 1] & 0xff) << 8 | (data[at + 2] & 0xff) << 16;
    }
}
