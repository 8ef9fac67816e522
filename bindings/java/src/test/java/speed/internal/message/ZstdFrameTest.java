package speed.internal.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Random;
import org.junit.jupiter.api.Test;
import speed.errors.CompressionException;
import speed.internal.wire.Limits;

/** M-23: the window of a frame of zstd, and the size of its blocks. */
class ZstdFrameTest {
    private static final int EIGHT_MIB = 13 << 3;
    private static final int ONE_KIB = 0;
    private static final int MOST_IN_A_BLOCK = 128 << 10;

    /** A frame with a window, and without a size, of runs of one byte. */
    private static byte[] frame(int window, int... runs) {
        return frame(new byte[] {0, (byte) window}, runs);
    }

    private static byte[] frame(byte[] head, int... runs) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.writeBytes(HexFormat.of().parseHex("28b52ffd"));
        out.writeBytes(head);
        for (int index = 0; index < runs.length; index++) {
            int header = runs[index] << 3 | 1 << 1 | (index == runs.length - 1 ? 1 : 0);
            out.writeBytes(new byte[] {(byte) header, (byte) (header >> 8), (byte) (header >> 16), 'x'});
        }
        return out.toByteArray();
    }

    private static void assertRead(byte[] frame, int size) {
        byte[] plain = Compression.decompress("zstd", frame, size);
        assertEquals(size, plain.length);
        assertEquals('x', plain[0]);
        assertEquals('x', plain[size - 1]);
    }

    private static void assertRefused(byte[] frame, int size) {
        assertThrows(CompressionException.class, () -> Compression.decompress("zstd", frame, size));
    }

    @Test
    void aWindowIsAtMostTheBound() {
        assertRead(frame(EIGHT_MIB, 5), 5);
        for (int window : new int[] {EIGHT_MIB + 1, EIGHT_MIB + 8, 255}) {
            assertRefused(frame(window, 5), 5);
        }
    }

    @Test
    void aBlockIsNotLargerThanTheWindow() {
        assertRead(frame(ONE_KIB, 1024, 1024), 2048);
        assertRefused(frame(ONE_KIB, 1025, 1023), 2048);
        assertRead(frame(ONE_KIB + 3, 1408, 640), 2048); // in eighths of it
        assertRefused(frame(ONE_KIB + 3, 1409, 639), 2048);
    }

    @Test
    void aBlockIsAtMost128KiB() {
        assertRead(frame(EIGHT_MIB, MOST_IN_A_BLOCK, 1), MOST_IN_A_BLOCK + 1);
        assertRefused(frame(EIGHT_MIB, MOST_IN_A_BLOCK + 1), MOST_IN_A_BLOCK + 1);
    }

    /** Its content is its window, and larger than what a descriptor may state. */
    @Test
    void aFrameOfASingleSegmentMayHoldTheLargestPayload() {
        int[] runs = new int[Limits.MAX_PAYLOAD_BYTES / MOST_IN_A_BLOCK];
        Arrays.fill(runs, MOST_IN_A_BLOCK);
        byte[] head = {(byte) 0b1010_0000, 0, 0, 0, 4};
        assertRead(frame(head, runs), Limits.MAX_PAYLOAD_BYTES);
        byte[] small = {0b0010_0000, 5};
        assertRead(frame(small, 5), 5);
        assertRefused(frame(small, 6), 5);
    }

    @Test
    void whatIsWrittenHereIsReadWhateverItsSize() {
        byte[] random = new byte[Limits.MAX_PAYLOAD_BYTES];
        new Random(1).nextBytes(random);
        for (int size : new int[] {1, 7, 40, 255, 256, 1000, MOST_IN_A_BLOCK + 1, 9 << 20, Limits.MAX_PAYLOAD_BYTES}) {
            byte[] plain = Arrays.copyOf(random, size);
            Arrays.fill(plain, 0, size / 2, (byte) 'x');
            byte[] frame = Compression.compress("zstd", plain);
            assertArrayEquals(plain, Compression.decompress("zstd", frame, size), () -> "of " + size);
        }
    }
}
