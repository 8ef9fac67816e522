package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import speed.errors.WireException;

/** What is kept in segments is sealed by libsodium, libcrypto and the JDK alike (G-14). */
class PieceAeadTest {
    private static final byte[] NAME = {1, 2, 3};

    private final PieceAead libraries = new PieceAead(new byte[32], new Random(1)::nextBytes, true);
    private final PieceAead jdk = new PieceAead(new byte[32], new Random(1)::nextBytes, false);

    /** Of each of the two libraries, and of the least that libcrypto is given. */
    @ParameterizedTest
    @ValueSource(ints = {900, Libcrypto.LEAST_BYTES - 1, Libcrypto.LEAST_BYTES, 70_000})
    void eachOpensWhatTheOtherSealedAndTheBytesAreTheSame(int bytes) {
        byte[] data = "0123456789".repeat(bytes / 10 + 2).getBytes();
        Block one = new Block(bytes + 100);
        Block other = new Block(bytes + 100);
        int size = libraries.seal(one, 7, data, 10, bytes, NAME);
        assertEquals(size, jdk.seal(other, 7, data, 10, bytes, NAME));
        assertArrayEquals(one.copy(7, size), other.copy(7, size));
        byte[] opened = one.copy(jdk.open(one, 7, size, NAME), bytes);
        assertArrayEquals(opened, other.copy(libraries.open(other, 7, size, NAME), bytes));
        assertEquals("0123", new String(opened, 0, 4));
    }

    @ParameterizedTest
    @ValueSource(ints = {10, Libcrypto.LEAST_BYTES})
    void whatIsNotAuthenticIsNotOpenedInPart(int bytes) {
        Block block = new Block(bytes + 100);
        int size = libraries.seal(block, 0, "0123456789".repeat(bytes / 10 + 1).getBytes(), 0, bytes, NAME);
        block.bytes.put(size - 1, (byte) (block.bytes.get(size - 1) ^ 1));
        assertThrows(WireException.class, () -> libraries.open(block, 0, size, NAME));
        assertArrayEquals(new byte[bytes], block.copy(Limits.NONCE_BYTES, bytes));
    }

    @Test
    void anotherNameOrAnAlteredByteIsRefused() {
        for (PieceAead aead : new PieceAead[] {libraries, jdk}) {
            Block block = new Block(100);
            int size = aead.seal(block, 0, new byte[10], 0, 10, NAME);
            assertThrows(WireException.class, () -> aead.open(block, 0, size, new byte[] {1, 2, 4}));
            assertThrows(WireException.class, () -> aead.open(block, 0, PieceAead.OVERHEAD - 1, NAME));
            Block altered = Block.of(block.copy(0, size));
            altered.bytes.put(15, (byte) (altered.bytes.get(15) ^ 1));
            assertThrows(WireException.class, () -> aead.open(altered, 0, size, NAME));
        }
    }
}
