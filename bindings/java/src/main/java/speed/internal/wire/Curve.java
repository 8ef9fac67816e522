package speed.internal.wire;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.spec.NamedParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Set;

/** Keys of Ed25519 and X25519 as 32 bytes; the JDK has them in DER, behind a fixed beginning (RFC 8410). */
public enum Curve {
    ED25519("Ed25519", 0x70),
    X25519("X25519", 0x6e);

    /** What a key takes, public or secret. */
    public static final int BYTES = 32;

    private static final BigInteger FIELD = BigInteger.TWO.pow(255).subtract(BigInteger.valueOf(19));
    private static final BigInteger ORDER_8 =
            new BigInteger("05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826", 16);
    private static final Set<BigInteger> SMALL_ORDER =
            Set.of(BigInteger.ZERO, BigInteger.ONE, FIELD.subtract(BigInteger.ONE), ORDER_8, FIELD.subtract(ORDER_8));

    /** What the JDK calls it. */
    public final String jdkName;

    private final byte[] publicFront;
    private final byte[] secretFront;

    Curve(String jdkName, int identifier) {
        this.jdkName = jdkName;
        String named = "300506032b65" + Integer.toHexString(identifier);
        publicFront = HexFormat.of().parseHex("302a" + named + "032100");
        secretFront = HexFormat.of().parseHex("302e020100" + named + "04220420");
    }

    /** The key of 32 bytes. */
    public PublicKey publicKey(byte[] raw) throws GeneralSecurityException {
        return KeyFactory.getInstance(jdkName).generatePublic(new X509EncodedKeySpec(joined(publicFront, raw)));
    }

    /** The secret of 32 bytes. */
    public PrivateKey secretKey(byte[] raw) throws GeneralSecurityException {
        return KeyFactory.getInstance(jdkName).generatePrivate(new PKCS8EncodedKeySpec(joined(secretFront, raw)));
    }

    /** The 32 bytes of a key. */
    public byte[] raw(PublicKey key) {
        byte[] encoded = key.getEncoded();
        return Arrays.copyOfRange(encoded, encoded.length - BYTES, encoded.length);
    }

    /** The public part of a secret: the JDK computes it only when it makes a pair, so it makes this one. */
    public PublicKey publicOf(byte[] secret) throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance(jdkName);
        generator.initialize(new NamedParameterSpec(jdkName), new Given(secret));
        return generator.generateKeyPair().getPublic();
    }

    /** Whether this point of Ed25519 has an order of 8 at most. */
    public static boolean isOfSmallOrder(byte[] point) {
        byte[] bigEndian = new byte[BYTES];
        for (int i = 0; i < BYTES; i++) {
            bigEndian[i] = point[BYTES - 1 - i];
        }
        return SMALL_ORDER.contains(new BigInteger(1, bigEndian).clearBit(255).mod(FIELD));
    }

    private static byte[] joined(byte[] front, byte[] raw) {
        byte[] joined = Arrays.copyOf(front, front.length + raw.length);
        System.arraycopy(raw, 0, joined, front.length, raw.length);
        return joined;
    }

    /** A generator that gives what it was given. */
    private static final class Given extends SecureRandom {
        private static final long serialVersionUID = 1L;

        private final transient byte[] secret;

        Given(byte[] secret) {
            this.secret = secret;
        }

        @Override
        public void nextBytes(byte[] bytes) {
            System.arraycopy(secret, 0, bytes, 0, bytes.length);
        }
    }
}
