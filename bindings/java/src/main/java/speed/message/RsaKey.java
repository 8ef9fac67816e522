package speed.message;

import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.KeyFactory;
import java.security.KeyPairGenerator;
import java.security.interfaces.RSAKey;
import java.security.interfaces.RSAPrivateCrtKey;
import java.security.interfaces.RSAPrivateKey;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.MGF1ParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.RSAPublicKeySpec;
import java.security.spec.X509EncodedKeySpec;
import javax.crypto.Cipher;
import javax.crypto.spec.OAEPParameterSpec;
import javax.crypto.spec.PSource;
import speed.errors.WeakAlgorithmException;
import speed.message.LoadedKey.RandomBytes;

/** RSA-OAEP with SHA-256 throughout, by the JDK. The secret is null where only the public part is known. */
record RsaKey(RSAPrivateKey secretKey, RSAPublicKey publicKey) implements LoadedKey.Kem {
    private static final byte[] NO_LABEL = {};

    static RsaKey ofSecret(Algorithm algorithm, byte[] pkcs8) throws GeneralSecurityException {
        KeyFactory factory = KeyFactory.getInstance("RSA");
        if (!(factory.generatePrivate(new PKCS8EncodedKeySpec(pkcs8)) instanceof RSAPrivateCrtKey secret)) {
            throw new InvalidKeyException("a private key without its primes");
        }
        RSAPublicKeySpec shown = new RSAPublicKeySpec(secret.getModulus(), secret.getPublicExponent());
        checkSize(algorithm, secret);
        return new RsaKey(secret, (RSAPublicKey) factory.generatePublic(shown));
    }

    static RsaKey ofPublic(Algorithm algorithm, byte[] spki) throws GeneralSecurityException {
        RSAPublicKey shown = (RSAPublicKey) KeyFactory.getInstance("RSA").generatePublic(new X509EncodedKeySpec(spki));
        checkSize(algorithm, shown);
        return new RsaKey(null, shown);
    }

    static byte[] newSecret(Algorithm algorithm) throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(Byte.SIZE * algorithm.outputBytes, RandomBytes.SOURCE);
        return generator.generateKeyPair().getPrivate().getEncoded();
    }

    private static void checkSize(Algorithm algorithm, RSAKey key) throws InvalidKeyException {
        int bits = key.getModulus().bitLength();
        if (bits < Algorithm.MIN_RSA_BITS) {
            throw new WeakAlgorithmException(
                    "an RSA key of " + bits + " bits is too short: use " + Algorithm.MIN_RSA_BITS + " or more");
        }
        if (bits != Byte.SIZE * algorithm.outputBytes) {
            throw new InvalidKeyException("another size");
        }
    }

    @Override
    public byte[] publicBytes() {
        return publicKey.getEncoded();
    }

    @Override
    public Encapsulated encapsulate() throws GeneralSecurityException {
        byte[] secret = RandomBytes.of(Algorithm.DATA_KEY_BYTES);
        return new Encapsulated(encrypt(secret, NO_LABEL), secret);
    }

    @Override
    public byte[] decapsulate(byte[] encapsulated) throws GeneralSecurityException {
        byte[] secret = decrypt(encapsulated, NO_LABEL);
        if (secret.length != Algorithm.DATA_KEY_BYTES) {
            throw new InvalidKeyException("another length");
        }
        return secret;
    }

    byte[] encrypt(byte[] data, byte[] label) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("RSA/ECB/OAEPPadding");
        cipher.init(Cipher.ENCRYPT_MODE, publicKey, oaep(label), RandomBytes.SOURCE);
        return cipher.doFinal(data);
    }

    byte[] decrypt(byte[] data, byte[] label) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("RSA/ECB/OAEPPadding");
        cipher.init(Cipher.DECRYPT_MODE, secretKey, oaep(label));
        return cipher.doFinal(data);
    }

    private static OAEPParameterSpec oaep(byte[] label) {
        return new OAEPParameterSpec("SHA-256", "MGF1", MGF1ParameterSpec.SHA256, new PSource.PSpecified(label));
    }

    @Override
    public String toString() {
        return "RsaKey";
    }
}
