package speed.internal.wire;

import java.security.GeneralSecurityException;
import java.util.function.Consumer;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import speed.errors.WireException;

/**
 * ChaCha20-Poly1305 of pieces of a file, each under a name that is authentic with it: nonce ‖ ciphertext ‖ tag.
 * libsodium and libcrypto where they can be loaded, else the JDK. Not thread-safe.
 */
public final class PieceAead {
    /** What a piece is longer than its data. */
    public static final int OVERHEAD = Limits.NONCE_BYTES + Limits.TAG_BYTES;

    private final byte[] key;
    private final Block nativeKey;
    private final Consumer<byte[]> random;
    private final byte[] nonce = new byte[Limits.NONCE_BYTES];
    private Block nativeName = new Block(1);

    /**
     * For one key.
     *
     * @param random fills an array from a cryptographic generator
     */
    public PieceAead(byte[] key, Consumer<byte[]> random) {
        this(key, random, Sodium.AVAILABLE);
    }

    PieceAead(byte[] key, Consumer<byte[]> random, boolean isNative) {
        this.key = key;
        this.random = random;
        nativeKey = isNative ? Block.of(key) : null;
    }

    /** Writes a sealed piece into a block; returns its bytes. */
    public int seal(Block into, int at, byte[] data, int from, int count, byte[] name) {
        random.accept(nonce);
        into.bytes.put(at, nonce);
        int begin = at + Limits.NONCE_BYTES;
        if (nativeKey == null) {
            into.bytes.put(begin, transformed(Cipher.ENCRYPT_MODE, data, from, count, name));
            return OVERHEAD + count;
        }
        into.bytes.put(begin, data, from, count);
        into.check(at, OVERHEAD + count);
        long place = into.address + begin;
        Libcrypto.seal(place, place, count, named(name), name.length, into.address + at, nativeKey.address);
        return OVERHEAD + count;
    }

    /** Opens a piece of some bytes, in place; returns where its data begin. BAD_TAG if it is not what was sealed. */
    public int open(Block sealed, int at, int size, byte[] name) {
        int begin = at + Limits.NONCE_BYTES;
        if (size < OVERHEAD || !isOpened(sealed, at, size, name)) {
            throw new WireException("BAD_TAG", "a piece that was kept is not authentic");
        }
        return begin;
    }

    private boolean isOpened(Block sealed, int at, int size, byte[] name) {
        int begin = at + Limits.NONCE_BYTES;
        int count = size - Limits.NONCE_BYTES;
        if (nativeKey != null) {
            sealed.check(at, size);
            return Libcrypto.open(
                    sealed.address + begin,
                    sealed.address + begin,
                    count - Limits.TAG_BYTES,
                    named(name),
                    name.length,
                    sealed.address + at,
                    nativeKey.address);
        }
        sealed.bytes.get(at, nonce);
        byte[] opened = transformed(Cipher.DECRYPT_MODE, sealed.copy(begin, count), 0, count, name);
        if (opened != null) {
            sealed.bytes.put(begin, opened);
        }
        return opened != null;
    }

    /** Null for what is not authentic. */
    private byte[] transformed(int mode, byte[] data, int from, int count, byte[] name) {
        try {
            Cipher cipher = Cipher.getInstance("ChaCha20-Poly1305");
            cipher.init(mode, new SecretKeySpec(key, "ChaCha20"), new IvParameterSpec(nonce));
            cipher.updateAAD(name);
            return cipher.doFinal(data, from, count);
        } catch (AEADBadTagException forged) {
            return null;
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("the JDK cannot seal", error);
        }
    }

    private long named(byte[] name) {
        if (nativeName.size < name.length) {
            nativeName = new Block(name.length);
        }
        nativeName.bytes.put(0, name);
        return nativeName.address;
    }
}
