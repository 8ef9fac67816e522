package speed.message;

import java.security.MessageDigest;
import speed.internal.wire.Hashes;

/** HMAC-SHA256: shows that a holder of the shared key wrote a message, and not which one. */
record HmacKey(byte[] secret) implements LoadedKey.Signer {
    @Override
    public byte[] publicBytes() {
        return new byte[0];
    }

    @Override
    public byte[] sign(byte[] covered) {
        return Hashes.hmac(secret, covered);
    }

    @Override
    public boolean holds(byte[] signature, byte[] covered) {
        return MessageDigest.isEqual(sign(covered), signature);
    }

    @Override
    public String toString() {
        return "HmacKey";
    }
}
