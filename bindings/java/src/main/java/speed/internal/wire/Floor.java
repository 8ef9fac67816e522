package speed.internal.wire;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import speed.errors.WireException;

/**
 * The floor of generations: below it lives were forgotten, above it every new claim begins. Immutable.
 *
 * <pre>
 * 0 "SPDR"  4 version  5 zero  8 256 × generation  mac(16)
 * </pre>
 */
public final class Floor {
    private static final int NUMBERS = 256;
    private static final int HEAD_BYTES = 8;
    private static final int BODY_BYTES = HEAD_BYTES + NUMBERS * Integer.BYTES;
    public static final int BYTES = BODY_BYTES + LaneMac.BYTES;
    private static final long HEAD = 0x53504452_01000000L;
    public static final Floor NONE = new Floor(new int[NUMBERS]);

    private final int[] numbers;

    private Floor(int[] numbers) {
        this.numbers = numbers;
    }

    /** The highest generation that may have been forgotten of a name. */
    public int of(String name) {
        return inBucket(bucket(name));
    }

    int inBucket(int bucket) {
        return numbers[bucket];
    }

    /** The same floor with one that is at least so high for a name. */
    public Floor raised(String name, int generation) {
        int[] changed = numbers.clone();
        changed[bucket(name)] = Math.max(generation, of(name));
        return new Floor(changed);
    }

    private static int bucket(String name) {
        return Byte.toUnsignedInt(NodeId.of(name).bytes()[0]);
    }

    public byte[] encode(byte[] registryKey) {
        ByteBuffer data = ByteBuffer.allocate(BYTES);
        data.putLong(HEAD);
        Arrays.stream(numbers).forEach(data::putInt);
        return data.put(mac(registryKey, data.array())).array();
    }

    /** The floor in the data; BAD_FLOOR if no accepted key made it, or it is no floor file. */
    public static Floor decode(byte[] data, List<byte[]> registryKeys) {
        if (data.length != BYTES || ByteBuffer.wrap(data).getLong() != HEAD) {
            throw new WireException("BAD_FLOOR", "no floor file");
        }
        byte[] mac = Arrays.copyOfRange(data, BODY_BYTES, BYTES);
        if (registryKeys.stream().noneMatch(key -> MessageDigest.isEqual(mac, mac(key, data)))) {
            throw new WireException("BAD_FLOOR", "the MAC does not fit: altered, or of another key");
        }
        int[] numbers = new int[NUMBERS];
        ByteBuffer.wrap(data, HEAD_BYTES, NUMBERS * Integer.BYTES).asIntBuffer().get(numbers);
        return new Floor(numbers);
    }

    private static byte[] mac(byte[] registryKey, byte[] data) {
        return Arrays.copyOf(Hashes.hmac(registryKey, Arrays.copyOf(data, BODY_BYTES)), LaneMac.BYTES);
    }
}
