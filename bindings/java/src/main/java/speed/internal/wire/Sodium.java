package speed.internal.wire;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;

/** The two functions of libsodium that seal and open. */
public final class Sodium {
    private static final String[] LIBRARIES = {"libsodium.so.23", "libsodium.so.26", "sodium"};

    /** Whether libsodium was found and started. */
    static final boolean AVAILABLE = register(Sodium.class) && sodium_init() >= 0;

    private Sodium() {}

    /** Binds the native methods of a class; false where there is no libsodium. */
    static boolean register(Class<?> natives) {
        for (String name : LIBRARIES) {
            try {
                Native.register(natives, NativeLibrary.getInstance(name));
                return true;
            } catch (UnsatisfiedLinkError missing) {
                // try the next name
            }
        }
        return false;
    }

    static native int sodium_init();

    static native int crypto_aead_chacha20poly1305_ietf_encrypt(
            long sealed,
            long sealedLength,
            long message,
            long messageBytes,
            long ad,
            long adBytes,
            long unused,
            long nonce,
            long key);

    static native int crypto_aead_chacha20poly1305_ietf_decrypt(
            long message,
            long messageLength,
            long unused,
            long sealed,
            long sealedBytes,
            long ad,
            long adBytes,
            long nonce,
            long key);

    /**
     * Ed25519 and ChaCha20-Poly1305 of libsodium on arrays: the bytes of the JDK's, of signatures fifteen and of ciphers four
     * times as fast. Only where {@link #AVAILABLE}. Thread-safe.
     */
    public static final class SodiumArrays {
        /** Whether libsodium was found. */
        public static final boolean AVAILABLE = Sodium.AVAILABLE && Sodium.register(SodiumArrays.class);

        private static final int SIGNATURE_BYTES = 64;
        private static final int SECRET_BYTES = 64;

        private SodiumArrays() {}

        /** The expanded secret of an Ed25519 seed; its last 32 bytes are the public key. */
        public static byte[] expanded(byte[] seed) {
            byte[] secret = new byte[SECRET_BYTES];
            crypto_sign_seed_keypair(new byte[Limits.KEY_BYTES], secret, seed);
            return secret;
        }

        /** Signs under an expanded secret (RFC 8032). */
        public static byte[] sign(byte[] message, byte[] expanded) {
            byte[] signature = new byte[SIGNATURE_BYTES];
            crypto_sign_detached(signature, 0, message, message.length, expanded);
            return signature;
        }

        /** Whether a signature of 64 bytes verifies. */
        public static boolean verify(byte[] signature, byte[] message, byte[] publicKey) {
            return crypto_sign_verify_detached(signature, message, message.length, publicKey) == 0;
        }

        /** Ciphertext and tag (RFC 8439). */
        public static byte[] seal(byte[] key, byte[] nonce, byte[] data, byte[] associated) {
            byte[] sealed = new byte[data.length + Limits.TAG_BYTES];
            crypto_aead_chacha20poly1305_ietf_encrypt(
                    sealed, 0, data, data.length, associated, associated.length, 0, nonce, key);
            return sealed;
        }

        /** The data; null for what is not authentic. */
        public static byte[] open(byte[] key, byte[] nonce, byte[] sealed, byte[] associated) {
            if (sealed.length < Limits.TAG_BYTES) {
                return null;
            }
            byte[] data = new byte[sealed.length - Limits.TAG_BYTES];
            int result = crypto_aead_chacha20poly1305_ietf_decrypt(
                    data, 0, 0, sealed, sealed.length, associated, associated.length, nonce, key);
            return result == 0 ? data : null;
        }

        private static native int crypto_sign_seed_keypair(byte[] publicKey, byte[] secret, byte[] seed);

        private static native int crypto_sign_detached(
                byte[] signature, long length, byte[] message, long messageBytes, byte[] secret);

        private static native int crypto_sign_verify_detached(
                byte[] signature, byte[] message, long messageBytes, byte[] publicKey);

        private static native int crypto_aead_chacha20poly1305_ietf_encrypt(
                byte[] sealed,
                long sealedLength,
                byte[] message,
                long messageBytes,
                byte[] ad,
                long adBytes,
                long unused,
                byte[] nonce,
                byte[] key);

        private static native int crypto_aead_chacha20poly1305_ietf_decrypt(
                byte[] message,
                long messageLength,
                long unused,
                byte[] sealed,
                long sealedBytes,
                byte[] ad,
                long adBytes,
                byte[] nonce,
                byte[] key);
    }
}
