package speed.message;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.util.Arrays;
import speed.internal.wire.Curve;
import speed.internal.wire.Hashes;
import speed.internal.wire.Sodium.SodiumArrays;

/** Keys that sign and verify, by algorithm. */
final class SigningKeys {
    private SigningKeys() {}

    /** Ed25519 (RFC 8032), by the JDK: for machines without libsodium. */
    static final class Ed25519Key implements LoadedKey.Signer {
        private static final int POINT_BYTES = 32;

        private final PrivateKey secretKey;
        private final PublicKey publicKey;

        private Ed25519Key(PrivateKey secretKey, PublicKey publicKey) {
            this.secretKey = secretKey;
            this.publicKey = publicKey;
        }

        static Ed25519Key ofSecret(byte[] seed) throws GeneralSecurityException {
            return new Ed25519Key(Curve.ED25519.secretKey(seed), Curve.ED25519.publicOf(seed));
        }

        static Ed25519Key ofPublic(byte[] raw) throws GeneralSecurityException {
            return new Ed25519Key(null, Curve.ED25519.publicKey(raw));
        }

        @Override
        public byte[] publicBytes() {
            return Curve.ED25519.raw(publicKey);
        }

        @Override
        public byte[] sign(byte[] covered) throws GeneralSecurityException {
            Signature signature = Signature.getInstance(Curve.ED25519.jdkName);
            signature.initSign(secretKey);
            signature.update(covered);
            return signature.sign();
        }

        /** The JDK ignores bytes behind the 64 of a signature, and takes an R of small order; neither holds here. */
        @Override
        public boolean holds(byte[] made, byte[] covered) {
            if (made.length != Algorithm.ED25519.outputBytes
                    || Curve.isOfSmallOrder(Arrays.copyOf(made, POINT_BYTES))) {
                return false;
            }
            try {
                Signature signature = Signature.getInstance(Curve.ED25519.jdkName);
                signature.initVerify(publicKey);
                signature.update(covered);
                return signature.verify(made);
            } catch (GeneralSecurityException malformed) {
                return false;
            }
        }
    }

    /** Ed25519 (RFC 8032), by libsodium. The secret is null where only the public part is known. */
    record SodiumEd25519Key(byte[] expanded, byte[] publicBytes) implements LoadedKey.Signer {
        static SodiumEd25519Key ofSecret(byte[] seed) {
            byte[] expanded = SodiumArrays.expanded(seed);
            return new SodiumEd25519Key(expanded, Arrays.copyOfRange(expanded, seed.length, expanded.length));
        }

        static SodiumEd25519Key ofPublic(byte[] raw) {
            return new SodiumEd25519Key(null, raw);
        }

        @Override
        public byte[] sign(byte[] covered) {
            return SodiumArrays.sign(covered, expanded);
        }

        @Override
        public boolean holds(byte[] signature, byte[] covered) {
            return signature.length == Algorithm.ED25519.outputBytes
                    && SodiumArrays.verify(signature, covered, publicBytes);
        }

        @Override
        public String toString() {
            return "SodiumEd25519Key";
        }
    }

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
}
