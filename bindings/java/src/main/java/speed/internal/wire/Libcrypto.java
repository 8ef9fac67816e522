package speed.internal.wire;

import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * ChaCha20-Poly1305 on native memory: by OpenSSL's libcrypto where there is one and the data are large, which then takes half the
 * time of libsodium, else by libsodium, whose one call costs less. The bytes are the same. Only where libsodium was found.
 * Thread-safe.
 */
final class Libcrypto {
    /** Fewer bytes are quicker by libsodium: libcrypto takes four calls. */
    static final int LEAST_BYTES = 4096;

    private static final String[] LIBRARIES = {"libcrypto.so.3", "libcrypto.so.1.1"};
    /** RTLD_LAZY alone: what others of this process look for is not found here. */
    private static final Map<String, ?> OWN = Map.of(Library.OPTION_OPEN_FLAGS, 1);

    private static final int GET_TAG = 0x10;
    private static final int SET_TAG = 0x11;

    /** Whether libcrypto was found, and has the cipher. */
    static final boolean AVAILABLE = Sodium.AVAILABLE && register() && hasCipher();

    /** Contexts that nobody uses at the moment: as many as there were threads at once. */
    private static final Queue<Context> CONTEXTS = new ConcurrentLinkedQueue<>();

    private Libcrypto() {}

    /** Seals: ciphertext, and the tag behind it, which may stand where the message stands. */
    static void seal(long sealed, long message, int bytes, long ad, int adBytes, long nonce, long key) {
        if (!AVAILABLE || bytes < LEAST_BYTES) {
            Sodium.crypto_aead_chacha20poly1305_ietf_encrypt(sealed, 0, message, bytes, ad, adBytes, 0, nonce, key);
            return;
        }
        Context context = Context.free();
        boolean isDone = EVP_EncryptInit_ex(context.address, 0, 0, key, nonce) == 1
                && (adBytes == 0 || EVP_EncryptUpdate(context.address, 0, context.length(), ad, adBytes) == 1)
                && EVP_EncryptUpdate(context.address, sealed, context.length(), message, bytes) == 1
                && EVP_EncryptFinal_ex(context.address, sealed + bytes, context.length()) == 1
                && EVP_CIPHER_CTX_ctrl(context.address, GET_TAG, Limits.TAG_BYTES, sealed + bytes) == 1;
        CONTEXTS.add(context);
        if (!isDone) {
            throw new IllegalStateException("libcrypto cannot seal");
        }
    }

    /**
     * Opens, perhaps in place; false if one bit differs from what was sealed: the place of the message then holds zeros.
     *
     * @param bytes of the message, without the tag behind it
     */
    static boolean open(long message, long sealed, int bytes, long ad, int adBytes, long nonce, long key) {
        if (!AVAILABLE || bytes < LEAST_BYTES) {
            return Sodium.crypto_aead_chacha20poly1305_ietf_decrypt(
                            message, 0, 0, sealed, bytes + Limits.TAG_BYTES, ad, adBytes, nonce, key)
                    == 0;
        }
        Context context = Context.free();
        boolean isAuthentic = EVP_DecryptInit_ex(context.address, 0, 0, key, nonce) == 1
                && EVP_CIPHER_CTX_ctrl(context.address, SET_TAG, Limits.TAG_BYTES, sealed + bytes) == 1
                && (adBytes == 0 || EVP_DecryptUpdate(context.address, 0, context.length(), ad, adBytes) == 1)
                && EVP_DecryptUpdate(context.address, message, context.length(), sealed, bytes) == 1
                && EVP_DecryptFinal_ex(context.address, message + bytes, context.length()) == 1;
        CONTEXTS.add(context);
        if (!isAuthentic) {
            new Pointer(message).setMemory(0, bytes, (byte) 0); // it decrypts before it knows the tag
        }
        return isAuthentic;
    }

    private static boolean register() {
        for (String name : LIBRARIES) {
            try {
                Native.register(Libcrypto.class, NativeLibrary.getInstance(name, OWN));
                return true;
            } catch (UnsatisfiedLinkError missing) {
                // try the next name
            }
        }
        return false;
    }

    /** One that was built without it, or keeps to FIPS, has none. */
    private static boolean hasCipher() {
        return Context.make() != null;
    }

    /** What one operation works on, and the length that libcrypto tells and nobody reads. */
    private record Context(long address, Block told) {
        /** Null where the cipher cannot be used. */
        static Context make() {
            long cipher = EVP_chacha20_poly1305();
            long address = cipher == 0 ? 0 : EVP_CIPHER_CTX_new();
            boolean isUsable = address != 0 && EVP_EncryptInit_ex(address, cipher, 0, 0, 0) == 1;
            return isUsable ? new Context(address, new Block(Long.BYTES)) : null;
        }

        static Context free() {
            Context context = CONTEXTS.poll();
            return context != null ? context : make();
        }

        long length() {
            return told.address;
        }
    }

    private static native long EVP_chacha20_poly1305();

    private static native long EVP_CIPHER_CTX_new();

    private static native int EVP_CIPHER_CTX_ctrl(long context, int what, int number, long place);

    private static native int EVP_EncryptInit_ex(long context, long cipher, long engine, long key, long nonce);

    private static native int EVP_EncryptUpdate(long context, long into, long length, long from, int bytes);

    private static native int EVP_EncryptFinal_ex(long context, long into, long length);

    private static native int EVP_DecryptInit_ex(long context, long cipher, long engine, long key, long nonce);

    private static native int EVP_DecryptUpdate(long context, long into, long length, long from, int bytes);

    private static native int EVP_DecryptFinal_ex(long context, long into, long length);
}
