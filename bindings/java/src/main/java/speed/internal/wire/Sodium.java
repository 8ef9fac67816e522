package speed.internal.wire;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;

/** The two functions of libsodium that seal and open. */
final class Sodium {
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
            long sealed, long sealedLength, long message, long messageBytes, long ad, long adBytes,
            long unused, long nonce, long key);

    static native int crypto_aead_chacha20poly1305_ietf_decrypt(
            long message, long messageLength, long unused, long sealed, long sealedBytes, long ad, long adBytes,
            long nonce, long key);
}
