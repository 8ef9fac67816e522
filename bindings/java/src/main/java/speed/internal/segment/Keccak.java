package speed.internal.segment;

import org.bouncycastle.crypto.digests.KeccakDigest;

/** Keccak-256 as it was before SHA-3 changed its padding, by BouncyCastle, fed in parts. Not thread-safe. */
public final class Keccak {
    /** Size of a hash. */
    public static final int HASH_BYTES = 32;

    private static final int STEP_BYTES = 1 << 20;

    private final KeccakDigest state = new KeccakDigest(HASH_BYTES * Byte.SIZE);

    /** A hash of nothing yet. */
    public Keccak() {}

    /**
     * The hash of some bytes.
     *
     * @param data all of them
     * @return 32 bytes
     */
    public static byte[] of(byte[] data) {
        Keccak keccak = new Keccak();
        keccak.update(data, 0, data.length);
        return keccak.digest();
    }

    /**
     * The hash of a payload of any size, read in parts of bounded size.
     *
     * @param source where it is read from
     * @return 32 bytes
     */
    public static byte[] of(Source source) {
        Keccak keccak = new Keccak();
        byte[] part = new byte[(int) Math.min(source.size(), STEP_BYTES)];
        for (long at = 0; at < source.size(); at += part.length) {
            int count = (int) Math.min(part.length, source.size() - at);
            source.read(at, part, 0, count);
            keccak.update(part, 0, count);
        }
        return keccak.digest();
    }

    /**
     * Adds bytes.
     *
     * @param data holds them
     * @param from where they begin
     * @param count how many
     */
    public void update(byte[] data, int from, int count) {
        state.update(data, from, count);
    }

    /**
     * The hash of all bytes so far; more may follow.
     *
     * @return 32 bytes
     */
    public byte[] digest() {
        byte[] hash = new byte[HASH_BYTES];
        new KeccakDigest(state).doFinal(hash, 0);
        return hash;
    }
}
