package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Random;
import org.junit.jupiter.api.Test;
import speed.errors.WireException;

/** What is kept in segments is sealed by libsodium and by the JDK alike (G-14). */
class PieceAeadTest {
    private static final byte[] NAME = {1, 2, 3};

    private final PieceAead sodium = new PieceAead(new byte[32], new Random(1)::nextBytes, true);
    private final PieceAead jdk = new PieceAead(new byte[32], new Random(1)::nextBytes, false);

    @Test
    void eachOpensWhatTheOtherSealedAndTheBytesAreTheSame() {
        byte[] data = "0123456789".repeat(100).getBytes();
        Block one = new Block(2000);
        Block other = new Block(2000);
        int size = sodium.seal(one, 7, data, 10, 900, NAME);
        assertEquals(size, jdk.seal(other, 7, data, 10, 900, NAME));
        assertArrayEquals(one.copy(7, size), other.copy(7, size));
        byte[] opened = one.copy(jdk.open(one, 7, size, NAME), 900);
        assertArrayEquals(opened, other.copy(sodium.open(other, 7, size, NAME), 900));
        assertEquals("0123", new String(opened, 0, 4));
    }

    @Test
    void anotherNameOrAnAlteredByteIsRefused() {
        for (PieceAead aead : new PieceAead[] {sodium, jdk}) {
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
