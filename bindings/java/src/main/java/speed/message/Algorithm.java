package speed.message;

import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import speed.errors.UnknownAlgorithmException;
import speed.errors.WeakAlgorithmException;
import speed.internal.message.Compression.Shown;

/**
 * The algorithms of the contract. A row is type, cipher, bytes of the encapsulated key or signature,
 * of the secret and of the public part (-1 where the key's own structure says it), and whether NIST approves it.
 */
public enum Algorithm {
    /** A shared key. */
    AES_256_GCM("aes-256-gcm", 1, "aes-256-gcm", 32, 32, 0, true),
    /** A shared key. */
    CHACHA20_POLY1305("chacha20-poly1305", 1, "chacha20-poly1305", 32, 32, 0, false),
    /** RSA of 3072 bits. */
    RSA_OAEP_3072("rsa-oaep-3072", 2, "aes-256-gcm", 384, -1, -1, true),
    /** RSA of 4096 bits. */
    RSA_OAEP_4096("rsa-oaep-4096", 2, "aes-256-gcm", 512, -1, -1, true),
    /** Elliptic curves. */
    X25519("x25519-chacha20-poly1305", 2, "chacha20-poly1305", 32, 32, 32, false),
    /** Post-quantum (FIPS 203); needs BouncyCastle. */
    ML_KEM_768("ml-kem-768", 3, "aes-256-gcm", 1088, 64, 1184, true),
    /** Post-quantum (FIPS 203); needs BouncyCastle. */
    ML_KEM_1024("ml-kem-1024", 3, "aes-256-gcm", 1568, 64, 1568, true),
    /** X25519 and ML-KEM-1024; needs BouncyCastle. */
    X25519_ML_KEM_1024("x25519-ml-kem-1024", 4, "aes-256-gcm", 1600, 96, 1600, true),
    /** HPKE with ML-KEM-768 and X25519: recommended; needs BouncyCastle. */
    X_WING("x-wing", 4, "aes-256-gcm", 1120, 32, 1216, false),
    /** Signatures of a key pair. */
    ED25519("ed25519", 0, "", 64, 32, 32, true),
    /** Signatures of a shared key: no proof towards a third party. */
    HMAC_SHA256("hmac-sha256", 0, "", 32, 32, 0, true);

    static final int IV_BYTES = 12;
    static final int TAG_BYTES = 16;
    static final int DATA_KEY_BYTES = 32;
    static final int WRAPPED_KEY_BYTES = DATA_KEY_BYTES + TAG_BYTES;
    static final int MAX_RECIPIENTS = 64;
    static final int MIN_RSA_BITS = 3072;
    static final int MAX_KEY_ID_BYTES = 128;
    static final long MAX_KEY_USES = 1L << 32;
    static final int FUTURE_TOLERANCE_MS = 300_000;

    static final Map<String, String> ALIASES = Map.of(
            "kyber768",
            "ml-kem-768",
            "kyber1024",
            "ml-kem-1024",
            "x25519-kyber1024",
            "x25519-ml-kem-1024",
            "rsa4096-kyber768",
            "x25519-ml-kem-1024");
    static final Set<String> REFUSED = Set.of(
            "aes-128-gcm",
            "rsa-oaep-1024",
            "rsa-oaep-2048",
            "rsa-2048",
            "rsa-oaep-sha1",
            "rsa-pkcs1",
            "3des",
            "des",
            "rc4",
            "md5",
            "sha-1",
            "hmac-md5",
            "hmac-sha1");
    private static final Map<String, Algorithm> BY_LABEL =
            Arrays.stream(values()).collect(Collectors.toMap(Algorithm::label, one -> one));

    final int type;
    final String cipher;
    final int outputBytes;
    final int secretBytes;
    final int publicBytes;
    final boolean strict;
    private final String label;

    Algorithm(
            String label, int type, String cipher, int outputBytes, int secretBytes, int publicBytes, boolean strict) {
        this.label = label;
        this.type = type;
        this.cipher = cipher;
        this.outputBytes = outputBytes;
        this.secretBytes = secretBytes;
        this.publicBytes = publicBytes;
        this.strict = strict;
    }

    /**
     * The name in the contract.
     *
     * @return such as {@code x-wing}
     */
    public String label() {
        return label;
    }

    /**
     * Whether it signs; others encrypt.
     *
     * @return whether it is a signature algorithm
     */
    public boolean isSignature() {
        return type == 0;
    }

    /**
     * Whether one key both makes and reads.
     *
     * @return whether there is no public part
     */
    public boolean isShared() {
        return publicBytes == 0;
    }

    boolean isRsa() {
        return this == RSA_OAEP_3072 || this == RSA_OAEP_4096;
    }

    /**
     * The algorithm of a name, or of an alias.
     *
     * @param name its ASCII letters in any case
     * @return the algorithm
     * @throws WeakAlgorithmException for one that is deprecated or too weak
     * @throws UnknownAlgorithmException for a name that nobody knows
     */
    public static Algorithm of(String name) {
        boolean isAscii = name.chars().allMatch(one -> one < 0x80);
        String wanted = isAscii ? name.toLowerCase(Locale.ROOT) : name; // or the sign of Kelvin would become a k
        if (REFUSED.contains(wanted)) {
            throw new WeakAlgorithmException(wanted
                    + " is deprecated or too weak, and no setting allows it: use x-wing, aes-256-gcm or ed25519");
        }
        Algorithm found = BY_LABEL.get(ALIASES.getOrDefault(wanted, wanted));
        if (found == null) {
            throw new UnknownAlgorithmException("no algorithm is called '" + Shown.text(name) + "'");
        }
        return found;
    }

    /** Returns it if a mode allows it, else WeakAlgorithmException. */
    Algorithm allowedBy(FipsMode mode) {
        if (mode == FipsMode.STRICT && !strict) {
            throw new WeakAlgorithmException(label + " is not approved by NIST, and the FIPS mode is strict");
        }
        return this;
    }
}
