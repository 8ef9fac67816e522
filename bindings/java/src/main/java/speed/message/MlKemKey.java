package speed.message;

import org.bouncycastle.crypto.SecretWithEncapsulation;
import org.bouncycastle.crypto.digests.SHAKEDigest;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMExtractor;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMGenerator;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMParameters;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMPrivateKeyParameters;
import org.bouncycastle.pqc.crypto.mlkem.MLKEMPublicKeyParameters;

/**
 * ML-KEM (FIPS 203), by BouncyCastle, which is an optional library: only this class names it. The secret is null where
 * only the public part is known.
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
