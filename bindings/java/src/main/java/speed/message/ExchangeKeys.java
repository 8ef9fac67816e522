package speed.message;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.util.Arrays;
import javax.crypto.KeyAgreement;
import org.bouncycastle.crypto.SecretWithEncapsulation;
import org.bouncycastle.crypto.digests.SHAKEDigest;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMExtractor;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMGenerator;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMParameters;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMPrivateKeyParameters;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMPublicKeyParameters;
import speed.internal.wire.Curve;
import speed.message.LoadedKey.RandomBytes;

/** Keys to which secrets are encapsulated, by algorithm, and shared ones. */
final class ExchangeKeys {
    private ExchangeKeys() {}

    /** X25519 with an ephemeral key (RFC 7748), by the JDK. The secret is null where only the public part is known. */
    record X25519Key(PrivateKey secretKey, PublicKey publicKey) implements LoadedKey.Kem {
        static final int BYTES = Curve.BYTES;
        private static final byte[] ZEROS = new byte[BYTES];

        static X25519Key ofSecret(byte[] raw) throws GeneralSecurityException {
            return new X25519Key(Curve.X25519.secretKey(raw), Curve.X25519.publicOf(raw));
        }

        static X25519Key ofPublic(byte[] raw) throws GeneralSecurityException {
            return new X25519Key(null, Curve.X25519.publicKey(raw));
        }

        @Override
        public byte[] publicBytes() {
            return Curve.X25519.raw(publicKey);
        }

        @Override
        public Encapsulated encapsulate() throws GeneralSecurityException {
            KeyPair ephemeral =
                    KeyPairGenerator.getInstance(Curve.X25519.jdkName).generateKeyPair();
            return new Encapsulated(Curve.X25519.raw(ephemeral.getPublic()), agreed(ephemeral.getPrivate(), publicKey));
        }

        @Override
        public byte[] decapsulate(byte[] encapsulated) throws GeneralSecurityException {
            return agreed(secretKey, Curve.X25519.publicKey(encapsulated));
        }

        /** InvalidKeyException for a result of zeros, which a point of small order gives. */
        private static byte[] agreed(PrivateKey ours, PublicKey theirs) throws GeneralSecurityException {
            KeyAgreement agreement = KeyAgreement.getInstance(Curve.X25519.jdkName);
            agreement.init(ours);
            agreement.doPhase(theirs, true);
            byte[] secret = agreement.generateSecret();
            if (Arrays.equals(secret, ZEROS)) {
                throw new InvalidKeyException("a point of small order");
            }
            return secret;
        }

        @Override
        public String toString() {
            return "X25519Key";
        }
    }

    /**
     * ML-KEM (FIPS 203), by BouncyCastle. The secret is null where only the public part is known.
     */
    record MlKemKey(MLKEMPrivateKeyParameters secretKey, MLKEMPublicKeyParameters publicKey) implements LoadedKey.Kem {
        private static final int SHAKE_BITS = 256;

        static MlKemKey ofSecret(Algorithm algorithm, byte[] seed) {
            MLKEMPrivateKeyParameters secret = new MLKEMPrivateKeyParameters(parameters(algorithm), seed);
            return new MlKemKey(secret, secret.getPublicKeyParameters());
        }

        /** IllegalArgumentException for numbers that are not reduced (FIPS 203, 7.2). */
        static MlKemKey ofPublic(Algorithm algorithm, byte[] encapsulationKey) {
            return new MlKemKey(null, new MLKEMPublicKeyParameters(parameters(algorithm), encapsulationKey));
        }

        private static MLKEMParameters parameters(Algorithm algorithm) {
            return algorithm == Algorithm.ML_KEM_768 ? MLKEMParameters.ml_kem_768 : MLKEMParameters.ml_kem_1024;
        }

        @Override
        public byte[] publicBytes() {
            return publicKey.getEncoded();
        }

        @Override
        public Encapsulated encapsulate() {
            SecretWithEncapsulation made = new MLKEMGenerator(RandomBytes.SOURCE).generateEncapsulated(publicKey);
            return new Encapsulated(made.getEncapsulation(), made.getSecret());
        }

        @Override
        public byte[] decapsulate(byte[] encapsulated) {
            return new MLKEMExtractor(secretKey).extractSecret(encapsulated);
        }

        /** SHAKE-256, which the JDK lacks and BouncyCastle has. */
        static byte[] shake(byte[] seed, int bytes) {
            SHAKEDigest digest = new SHAKEDigest(SHAKE_BITS);
            digest.update(seed, 0, seed.length);
            byte[] made = new byte[bytes];
            digest.doFinal(made, 0, bytes);
            return made;
        }

        @Override
        public String toString() {
            return "MlKemKey";
        }
    }

    /** X25519 and ML-KEM-1024 side by side: who breaks one of them has nothing. */
    record HybridKey(X25519Key x25519, MlKemKey mlKem) implements LoadedKey.Kem {
        static HybridKey ofSecret(byte[] secret) throws GeneralSecurityException {
            return new HybridKey(
                    X25519Key.ofSecret(first(secret)), MlKemKey.ofSecret(Algorithm.ML_KEM_1024, rest(secret)));
        }

        static HybridKey ofPublic(byte[] shown) throws GeneralSecurityException {
            return new HybridKey(
                    X25519Key.ofPublic(first(shown)), MlKemKey.ofPublic(Algorithm.ML_KEM_1024, rest(shown)));
        }

        private static byte[] first(byte[] bytes) {
            return Arrays.copyOf(bytes, X25519Key.BYTES);
        }

        private static byte[] rest(byte[] bytes) {
            return Arrays.copyOfRange(bytes, X25519Key.BYTES, bytes.length);
        }

        static byte[] joined(byte[] one, byte[] other) {
            byte[] joined = Arrays.copyOf(one, one.length + other.length);
            System.arraycopy(other, 0, joined, one.length, other.length);
            return joined;
        }

        @Override
        public byte[] publicBytes() {
            return joined(x25519.publicBytes(), mlKem.publicBytes());
        }

        @Override
        public Encapsulated encapsulate() throws GeneralSecurityException {
            Encapsulated classical = x25519.encapsulate();
            Encapsulated quantum = mlKem.encapsulate();
            return new Encapsulated(
                    joined(classical.key(), quantum.key()), joined(quantum.secret(), classical.secret()));
        }

        @Override
        public byte[] decapsulate(byte[] encapsulated) throws GeneralSecurityException {
            byte[] classical = x25519.decapsulate(first(encapsulated));
            return joined(mlKem.decapsulate(rest(encapsulated)), classical);
        }
    }

    /** X-Wing: ML-KEM-768 and X25519 under one combiner, which is SHA3-256 (draft-connolly-cfrg-xwing-kem). */
    record XWingKey(MlKemKey mlKem, X25519Key x25519) implements LoadedKey.Kem {
        private static final int SEED_BYTES = 64;
        private static final byte[] LABEL = "\\.//^\\".getBytes(StandardCharsets.US_ASCII);

        static XWingKey ofSecret(byte[] seed) throws GeneralSecurityException {
            byte[] both = MlKemKey.shake(seed, SEED_BYTES + X25519Key.BYTES);
            byte[] classical = Arrays.copyOfRange(both, SEED_BYTES, both.length);
            return new XWingKey(
                    MlKemKey.ofSecret(Algorithm.ML_KEM_768, Arrays.copyOf(both, SEED_BYTES)),
                    X25519Key.ofSecret(classical));
        }

        static XWingKey ofPublic(byte[] shown) throws GeneralSecurityException {
            return new XWingKey(MlKemKey.ofPublic(Algorithm.ML_KEM_768, front(shown)), X25519Key.ofPublic(end(shown)));
        }

        private static byte[] front(byte[] bytes) {
            return Arrays.copyOf(bytes, bytes.length - X25519Key.BYTES);
        }

        private static byte[] end(byte[] bytes) {
            return Arrays.copyOfRange(bytes, bytes.length - X25519Key.BYTES, bytes.length);
        }

        @Override
        public byte[] publicBytes() {
            return HybridKey.joined(mlKem.publicBytes(), x25519.publicBytes());
        }

        @Override
        public Encapsulated encapsulate() throws GeneralSecurityException {
            Encapsulated quantum = mlKem.encapsulate();
            Encapsulated classical = x25519.encapsulate();
            return new Encapsulated(
                    HybridKey.joined(quantum.key(), classical.key()),
                    combined(quantum.secret(), classical.secret(), classical.key()));
        }

        @Override
        public byte[] decapsulate(byte[] encapsulated) throws GeneralSecurityException {
            byte[] ephemeral = end(encapsulated);
            return combined(mlKem.decapsulate(front(encapsulated)), x25519.decapsulate(ephemeral), ephemeral);
        }

        private byte[] combined(byte[] quantum, byte[] classical, byte[] ephemeral) throws GeneralSecurityException {
            MessageDigest digest = MessageDigest.getInstance("SHA3-256");
            for (byte[] part : new byte[][] {quantum, classical, ephemeral, x25519.publicBytes(), LABEL}) {
                digest.update(part);
            }
            return digest.digest();
        }
    }

    /** A shared key: 32 random bytes stand beside it, so that each message has a wrapping key of its own. */
    record SharedKey(byte[] secret) implements LoadedKey.Kem {
        @Override
        public byte[] publicBytes() {
            return new byte[0];
        }

        @Override
        public Encapsulated encapsulate() {
            return new Encapsulated(RandomBytes.of(Algorithm.DATA_KEY_BYTES), secret);
        }

        @Override
        public byte[] decapsulate(byte[] encapsulated) {
            return secret;
        }

        @Override
        public String toString() {
            return "SharedKey";
        }
    }
}
