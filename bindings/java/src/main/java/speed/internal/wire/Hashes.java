package speed.internal.wire;

import java.security.MessageDigest;
import java.util.Arrays;

/** SHA-256, HMAC-SHA256 and the HKDF built from it. */
public final class Hashes {
    private static final byte[] ZERO_SALT = new byte[32];

    private Hashes() {}

    /** The digest of all parts, one after the other. */
    public static byte[] sha256(byte[]... parts) {
        MessageDigest digest = Sha256.digest();
        for (byte[] part : parts) {
            digest.update(part);
        }
        return digest.digest();
    }

    /** The MAC of some bytes under a key; {@link Hmac} is for a key that is used again. */
    public static byte[] hmac(byte[] key, byte[] data) {
        return new Hmac(key).of(data, data.length);
    }

    /** HKDF-SHA256 (RFC 5869) with an empty salt and 32 bytes of output. */
    public static byte[] hkdf(byte[] key, byte[] info) {
        byte[] labelled = Arrays.copyOf(info, info.length + 1);
        labelled[info.length] = 1;
        return hmac(hmac(ZERO_SALT, key), labelled);
    }
}
