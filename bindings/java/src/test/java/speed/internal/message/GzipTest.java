package speed.internal.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32;
import org.junit.jupiter.api.Test;
import speed.errors.CompressionException;

/** M-23: one member of RFC 1952, of exactly the size that the message says. */
class GzipTest {
    private static final byte[] PLAIN = "hello hello hello".getBytes(StandardCharsets.US_ASCII);
    private static final int HEADER_BYTES = 10;
    private static final int TRAILER_BYTES = 8;

    private final Gzip gzip = new Gzip();
    private final byte[] sound = gzip.compress(PLAIN);

    private void assertRefused(byte[] data, int size) {
        assertThrows(CompressionException.class, () -> gzip.decompress(data, size));
    }

    private byte[] with(int at, int value) {
        byte[] data = sound.clone();
        data[at] = (byte) value;
        return data;
    }

    /** Extra field, name, comment and a checksum of the header. */
    private byte[] withAllFields() {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.writeBytes(Arrays.copyOf(with(3, 2 | 4 | 8 | 16), HEADER_BYTES));
        out.writeBytes(new byte[] {3, 0, 1, 2, 3, 'n', 0, 'c', 'c', 0});
        CRC32 sum = new CRC32();
        sum.update(out.toByteArray());
        out.write((int) sum.getValue());
        out.write((int) sum.getValue() >> 8);
        out.writeBytes(Arrays.copyOfRange(sound, HEADER_BYTES, sound.length));
        return out.toByteArray();
    }

    @Test
    void aHeaderMayHaveEveryField() {
        assertArrayEquals(PLAIN, gzip.decompress(sound, PLAIN.length));
        assertArrayEquals(PLAIN, gzip.decompress(withAllFields(), PLAIN.length));
    }

    @Test
    void aHeaderThatItsChecksumDoesNotFitIsRefused() {
        for (int at : new int[] {4, 12, 15, 17, 20, 21}) { // time, extra field, name, comment, both bytes of the sum
            byte[] data = withAllFields();
            data[at] ^= 64;
            assertRefused(data, PLAIN.length);
        }
    }

    @Test
    void whatEndsTooEarlyIsRefused() {
        byte[] whole = withAllFields();
        for (int bytes = 0; bytes < whole.length; bytes++) {
            assertRefused(Arrays.copyOf(whole, bytes), PLAIN.length);
        }
    }

    @Test
    void anotherFormatMethodOrFlagIsRefused() {
        for (byte[] data : new byte[][] {with(0, 0), with(1, 0), with(2, 7), with(3, 32), with(3, 128)}) {
            assertRefused(data, PLAIN.length);
        }
    }

    @Test
    void brokenDataAndSumsAreRefused() {
        assertRefused(with(HEADER_BYTES, 7), PLAIN.length); // a block type that does not exist
        assertRefused(with(sound.length - TRAILER_BYTES, sound[sound.length - TRAILER_BYTES] ^ 1), PLAIN.length);
        assertRefused(with(sound.length - 1, 1), PLAIN.length);
    }

    @Test
    void anotherSizeAndFurtherBytesAreRefused() {
        assertRefused(sound, PLAIN.length - 1);
        assertRefused(sound, PLAIN.length + 1);
        assertRefused(Arrays.copyOf(sound, sound.length + 1), PLAIN.length);
    }
}
