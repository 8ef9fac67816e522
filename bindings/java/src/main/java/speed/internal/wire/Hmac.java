package speed.internal.wire;

import java.security.MessageDigest;
import java.util.Arrays;

/**
 * HMAC-SHA256 under one key (RFC 2104). Both pads are digested once: of five blocks a short text is left with three.
 * Thread-safe: the prepared digests are only copied.
 */
final class Hmac {
    private static final int BLOCK_BYTES = 64;
    private static final byte INNER = 0x36;
    private static final byte OUTER = 0x5C;

    private final MessageDigest inner;
    private final MessageDigest outer;

    Hmac(byte[] key) {
        byte[] block = Arrays.copyOf(key.length > BLOCK_BYTES ? Sha256.digest().digest(key) : key, BLOCK_BYTES);
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
