package speed.message;

import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.util.Arrays;
import javax.crypto.KeyAgreement;

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
        KeyPair ephemeral = KeyPairGenerator.getInstance(Curve.X25519.jdkName).generateKeyPair();
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
