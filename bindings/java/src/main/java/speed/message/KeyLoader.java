package speed.message;

import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import speed.errors.KeyRefusedException;

/** The bytes of M-26 as keys of a library. */
final class KeyLoader {
    static final SecureRandom RANDOM = new SecureRandom();

    private KeyLoader() {}

    /** One of the two parts may be null. KeyRefusedException for bytes that are no such key. */
    static LoadedKey load(String id, Algorithm algorithm, byte[] secret, byte[] publicBytes) {
        try {
            return load(algorithm, secret, publicBytes);
        } catch (GeneralSecurityException | IllegalArgumentException broken) {
            throw new KeyRefusedException("key '" + id + "' holds no " + algorithm.label() + " key: make it anew");
        }
    }

    private static LoadedKey load(Algorithm algorithm, byte[] secret, byte[] publicBytes)
            throws GeneralSecurityException {
        return switch (algorithm) {
            case ED25519 -> secret != null ? Ed25519Key.ofSecret(secret) : Ed25519Key.ofPublic(publicBytes);
            case HMAC_SHA256 -> new HmacKey(secret);
            default -> throw new speed.errors.NotAvailableException(algorithm.label() + " comes with encryption");
        };
    }

    static byte[] newSecret(Algorithm algorithm) {
        byte[] secret = new byte[algorithm.secretBytes];
        RANDOM.nextBytes(secret);
        return secret;
    }
}
