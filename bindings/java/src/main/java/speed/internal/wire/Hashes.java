package speed.internal.wire;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
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

    /** SHA-256, which every JDK has. */
    static final class Sha256 {
        private Sha256() {}

        /** A digest to be fed. */
        static MessageDigest digest() {
            try {
                return MessageDigest.getInstance("SHA-256");
            } catch (NoSuchAlgorithmException impossible) {
                throw new AssertionError(impossible);
            }
        }
    }

    /**
     * HMAC-SHA256 under one key (RFC 2104). Both pads are digested once: of five blocks a short text is left with three.
     * Thread-safe: the prepared digests are only copied.
     */
    static final class Hmac {
        private static final int BLOCK_BYTES = 64;
        private static final byte INNER = 0x36;
        private static final byte OUTER = 0x5C;

        private final MessageDigest inner;
        private final MessageDigest outer;

        Hmac(byte[] key) {
            byte[] block =
                    Arrays.copyOf(key.length > BLOCK_BYTES ? Sha256.digest().digest(key) : key, BLOCK_BYTES);
            inner = padded(block, INNER);
            outer = padded(block, OUTER);
        }

        private static MessageDigest padded(byte[] block, byte pad) {
            byte[] padded = new byte[BLOCK_BYTES];
            for (int index = 0; index < BLOCK_BYTES; index++) {
                padded[index] = (byte) (block[index] ^ pad);
            }
            MessageDigest digest = Sha256.digest();
            digest.update(padded);
            return digest;
        }

        /** The MAC of the first bytes of some data. */
        byte[] of(byte[] data, int length) {
            MessageDigest digest = copy(inner);
            digest.update(data, 0, length);
            return copy(outer).digest(digest.digest());
        }

        private static MessageDigest copy(MessageDigest prepared) {
            try {
                return (MessageDigest) prepared.clone();
            } catch (CloneNotSupportedException impossible) {
                throw new AssertionError(impossible);
            }
        }
    }
}
