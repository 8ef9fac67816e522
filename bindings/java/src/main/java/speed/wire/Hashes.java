package speed.wire;

import java.security.InvalidKeyException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** SHA-256, HMAC-SHA256 and the HKDF built from it (W-9 to W-11). */
public final class Hashes {
    private static final byte[] ZERO_SALT = new byte[32];

    private Hashes() {}

    /** The digest of all parts, one after the other. */
    public static byte[] sha256(byte[]... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (byte[] part : parts) {
                digest.update(part);
            }
            return digest.digest();
        } catch (NoSuchAlgorithmException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** A MAC object for one key, to be used again and again by one thread at a time. */
    public static Mac hmac(byte[] key) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac;
        } catch (NoSuchAlgorithmException | InvalidKeyException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** The MAC of some bytes under a key. */
    public static byte[] hmac(byte[] key, byte[] data) {
        return hmac(key).doFinal(data);
    }

    /** HKDF-SHA256 (RFC 5869) with an empty salt and 32 bytes of output (W-10). */
    public static byte[] hkdf(byte[] key, byte[] info) {
        byte[] labelled = Arrays.copyOf(info, info.length + 1);
        labelled[info.length] = 1;
        return hmac(hmac(ZERO_SALT, key), labelled);
    }
}
