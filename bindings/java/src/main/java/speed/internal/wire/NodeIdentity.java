package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.PrivateKey;
import java.security.Signature;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import javax.crypto.KeyAgreement;
import speed.errors.KeyFileException;
import speed.errors.WireException;

/** The secrets of one node, which it shares with nobody (I-1, I-2). Never shows them. Thread-safe. */
public final class NodeIdentity {
    private static final String FIRST_LINE = "SPEED-IDENTITY-V1";
    private static final String FIX = "; make one with `speed key identity new`";
    private static final int FINGERPRINT_CHARACTERS = 2 * Limits.FINGERPRINT_BYTES;
    private static final byte[] ZEROS = new byte[Curve.BYTES];

    private final byte[] seed;
    private final List<byte[]> exchanges;
    private final List<String> owners;
    private final PrivateKey signingSecret;
    private final byte[] exchangeSecret;
    private final byte[] signing;
    private final byte[] exchange;
    private final List<byte[]> renewed;

    /** An identity of a seed, its renewed exchange keys, and the fingerprints of its owners. */
    public NodeIdentity(byte[] seed, List<byte[]> exchanges, List<String> owners) {
        this.seed = seed.clone();
        this.exchanges = List.copyOf(exchanges);
        this.owners = List.copyOf(owners);
        exchangeSecret = Hashes.hkdf(seed, ascii("speed/1 identity exchange"));
        exchange = publicOf(exchangeSecret);
        renewed = exchanges.stream().map(NodeIdentity::publicOf).toList();
        byte[] secret = Hashes.hkdf(seed, ascii("speed/1 identity signing"));
        try {
            signingSecret = Curve.ED25519.secretKey(secret);
            signing = Curve.ED25519.raw(Curve.ED25519.publicOf(secret));
        } catch (GeneralSecurityException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** The public signing key. */
    public byte[] signing() {
        return signing.clone();
    }

    /** The public exchange key that never changes. */
    public byte[] exchange() {
        return exchange.clone();
    }

    /** The public halves of the renewed exchange keys, that of now first. */
    public List<byte[]> renewed() {
        return renewed.stream().map(byte[]::clone).toList();
    }

    /** Fingerprints of those whose statements count. */
    public List<String> owners() {
        return owners;
    }

    /** What names this identity. */
    public String fingerprint() {
        return fingerprint(signing, exchange);
    }

    /** What names the identity of two public keys: 40 lower-case hexadecimal digits. */
    public static String fingerprint(byte[] signing, byte[] exchange) {
        byte[] digest = Hashes.sha256(ascii("speed/1 identity"), signing, exchange);
        return HexFormat.of().formatHex(digest, 0, Limits.FINGERPRINT_BYTES);
    }

    /** Whether this is the fingerprint of an identity; never the name of a host. */
    public static boolean isFingerprint(String text) {
        return text.length() == FINGERPRINT_CHARACTERS
                && text.chars().allMatch(one -> one >= '0' && one <= '9' || one >= 'a' && one <= 'f');
    }

    /** The public half of an X25519 secret. */
    public static byte[] publicOf(byte[] secret) {
        try {
            return Curve.X25519.raw(Curve.X25519.publicOf(secret));
        } catch (GeneralSecurityException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** Signs by Ed25519. */
    public byte[] sign(byte[]... parts) {
        try {
            Signature signature = Signature.getInstance(Curve.ED25519.jdkName);
            signature.initSign(signingSecret);
            for (byte[] part : parts) {
                signature.update(part);
            }
            return signature.sign();
        } catch (GeneralSecurityException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** Whether a public key signed these parts. */
    static boolean isSigned(byte[] key, byte[] made, byte[]... parts) {
        if (Curve.isOfSmallOrder(key) || Curve.isOfSmallOrder(Arrays.copyOf(made, Curve.BYTES))) {
            return false;
        }
        try {
            Signature signature = Signature.getInstance(Curve.ED25519.jdkName);
            signature.initVerify(Curve.ED25519.publicKey(key));
            for (byte[] part : parts) {
                signature.update(part);
            }
            return signature.verify(made);
        } catch (GeneralSecurityException malformed) {
            return false;
        }
    }

    /** What takes the place of a shared key for files of this node alone. */
    public byte[] restingKey(byte[] shared) {
        byte[] secrets = Arrays.copyOf(shared, shared.length + exchangeSecret.length);
        System.arraycopy(exchangeSecret, 0, secrets, shared.length, exchangeSecret.length);
        return Hashes.hkdf(secrets, ascii("speed/1 identity at rest"));
    }

    /** What this identity and the holder of a public key share; BAD_IDENTITY for a weak key. */
    byte[] agree(byte[] other) {
        return agreed(exchangeSecret, other);
    }

    /** The same by the renewed key with a public half of its own; BAD_IDENTITY where it was given up. */
    byte[] agreeRenewed(byte[] own, byte[] other) {
        for (int index = 0; index < renewed.size(); index++) {
            if (Arrays.equals(renewed.get(index), own)) {
                return agreed(exchanges.get(index), other);
            }
        }
        throw refused("it is for an exchange key that was given up");
    }

    static byte[] agreed(byte[] secret, byte[] other) {
        try {
            KeyAgreement agreement = KeyAgreement.getInstance(Curve.X25519.jdkName);
            agreement.init(Curve.X25519.secretKey(secret));
            agreement.doPhase(Curve.X25519.publicKey(other), true);
            byte[] shared = agreement.generateSecret();
            if (!Arrays.equals(shared, ZEROS)) {
                return shared;
            }
        } catch (GeneralSecurityException weak) {
            // refused like a result of zeros
        }
        throw refused("an exchange key that is none");
    }

    static WireException refused(String why) {
        return new WireException("BAD_IDENTITY", why);
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    // The file (I-2).

    /** The identity of a file; the error names the line, never its content. */
    public static NodeIdentity parse(byte[] text) {
        String[] lines = new String(text, StandardCharsets.ISO_8859_1).split("\n", -1);
        require(
                KeyFile.withoutTrailingSpace(lines[0]).equals(FIRST_LINE),
                "line 1 of the identity file is not " + FIRST_LINE);
        List<byte[]> seeds = new ArrayList<>();
        List<byte[]> exchanges = new ArrayList<>();
        List<String> owners = new ArrayList<>();
        for (int index = 1; index < lines.length; index++) {
            String line = KeyFile.withoutTrailingSpace(lines[index]);
            if (!line.isEmpty()) {
                take(line, index + 1, seeds, exchanges, owners);
            }
        }
        requireCount(seeds.stream().map(NodeIdentity::spelled).toList(), 1, 1, "seed");
        requireCount(exchanges.stream().map(NodeIdentity::spelled).toList(), 1, Limits.MAX_EXCHANGE_KEYS, "exchange");
        requireCount(owners, 0, Limits.MAX_OWNERS, "owner");
        return new NodeIdentity(seeds.get(0), exchanges, owners);
    }

    private static void take(String line, int number, List<byte[]> seeds, List<byte[]> exchanges, List<String> owners) {
        int space = line.indexOf(' ');
        String word = space < 0 ? line : line.substring(0, space);
        String value = space < 0 ? "" : line.substring(space + 1);
        switch (word) {
            case "seed" -> seeds.add(secret(value, number));
            case "exchange" -> exchanges.add(secret(value, number));
            case "owner" -> {
                require(isFingerprint(value), "line " + number + " of the identity file is no fingerprint");
                owners.add(value);
            }
            default -> require(false, "line " + number + " of the identity file is no seed, exchange or owner");
        }
    }

    private static byte[] secret(String value, int number) {
        byte[] secret;
        try {
            secret = Base64.getDecoder().decode(value);
        } catch (IllegalArgumentException notBase64) {
            secret = new byte[0];
        }
        require(
                secret.length == Limits.KEY_BYTES && spelled(secret).equals(value),
                "line " + number + " of the identity file is not the Base64 of 32 bytes");
        return secret;
    }

    private static String spelled(byte[] secret) {
        return Base64.getEncoder().encodeToString(secret);
    }

    private static void requireCount(List<String> found, int least, int most, String word) {
        boolean fits = found.size() >= least
                && found.size() <= most
                && found.stream().distinct().count() == found.size();
        require(fits, "the identity file has no " + word + ", too many of them, or one twice");
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new KeyFileException(what + FIX);
        }
    }

    /** Whether another one has the same keys and owners. */
    public boolean isAs(NodeIdentity other) {
        return Arrays.equals(format(), other.format());
    }

    /** The text that {@link #parse} reads back. */
    public byte[] format() {
        StringBuilder text = new StringBuilder(FIRST_LINE + "\n\nseed " + spelled(seed) + "\n");
        exchanges.forEach(one -> text.append("exchange ").append(spelled(one)).append('\n'));
        owners.forEach(one -> text.append("owner ").append(one).append('\n'));
        return ascii(text.toString());
    }

    @Override
    public String toString() {
        return "Identity " + fingerprint();
    }
}
