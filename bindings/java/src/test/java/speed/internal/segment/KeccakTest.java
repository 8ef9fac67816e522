package speed.internal.segment;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.util.Random;
import org.junit.jupiter.api.Test;

/** A payload has the same hash however it is read (G-3). */
class KeccakTest {
    private final long seed = Long.getLong("speed.seed", System.nanoTime());

    @Test
    void bytesFedInAnyPartsGiveTheHashOfTheWhole() {
        System.out.println("seed " + seed);
        Random random = new Random(seed);
        for (int round = 0; round < 300; round++) {
            byte[] data = new byte[random.nextInt(1000)];
            random.nextBytes(data);
            Keccak keccak = new Keccak();
            for (int at = 0; at < data.length; ) {
                int part = Math.min(data.length - at, random.nextInt(300));
                keccak.update(data, at, part);
                keccak.digest(); // more may follow
                at += part;
            }
            assertArrayEquals(Keccak.of(data), keccak.digest());
        }
    }
}
