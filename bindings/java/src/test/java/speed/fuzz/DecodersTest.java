package speed.fuzz;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Bad bytes end with a named error within bounds; {@code scripts/fuzz java} looks for more of them. */
class DecodersTest {
    private static final int ROUNDS = 40;

    private final long seed = Long.getLong("speed.seed", System.nanoTime());
    private final Random random = new Random(seed);
    private final List<Seeds.Seed> seeds = Seeds.all();

    /** W-15, R-2, L-14, L-18, S-1, S-2, M-4: a decoder that refused everything would pass all other tests here. */
    @Test
    void everyDecoderReadsSomeOfTheVectors() {
        Map<Decoder, Integer> sound = new EnumMap<>(Decoder.class);
        for (Seeds.Seed one : seeds) {
            sound.merge(one.decoder(), Fuzz.check(one.decoder(), one.data()) ? 1 : 0, Integer::sum);
        }
        for (Decoder decoder : Decoder.values()) {
            assertTrue(sound.getOrDefault(decoder, 0) > 0, decoder + " read nothing: " + sound);
        }
    }

    @Test
    void alteredVectorsEndWithANamedErrorWithinBounds() {
        System.out.println("seed " + seed);
        for (Seeds.Seed one : seeds) {
            for (int round = 0; round < ROUNDS; round++) {
                checkAltered(one.decoder(), one.data());
            }
        }
    }

    private void checkAltered(Decoder decoder, byte[] sound) {
        byte[] data = altered(sound);
        try {
            Fuzz.check(decoder, data);
        } catch (RuntimeException | Error defect) {
            throw new AssertionError(decoder + " " + HexFormat.of().formatHex(data), defect);
        }
    }

    /** One to three changes: other bytes, a piece less, or a piece of another vector. */
    private byte[] altered(byte[] sound) {
        byte[] data = sound.clone();
        for (int change = random.nextInt(3); change >= 0; change--) {
            int at = random.nextInt(data.length + 1);
            byte[] other = seeds.get(random.nextInt(seeds.size())).data();
            switch (random.nextInt(3)) {
                case 0 -> overwrite(data, at);
                case 1 -> data = Arrays.copyOf(data, at);
                default -> data = joined(data, at, other);
            }
        }
        return data;
    }

    private void overwrite(byte[] data, int at) {
        for (int index = at; index < Math.min(data.length, at + 1 + random.nextInt(4)); index++) {
            data[index] = (byte) (random.nextBoolean() ? random.nextInt() : -1);
        }
    }

    private static byte[] joined(byte[] data, int at, byte[] other) {
        byte[] joined = Arrays.copyOf(data, at + other.length);
        System.arraycopy(other, 0, joined, at, other.length);
        return joined;
    }
}
