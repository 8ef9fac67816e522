package speed.message;

import java.security.GeneralSecurityException;
import java.security.spec.AlgorithmParameterSpec;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import speed.internal.wire.Sodium.SodiumArrays;

/** AES-256-GCM by the JDK, or ChaCha20-Poly1305 by libsodium or the JDK, under one key; the tag of 16 bytes follows the ciphertext. */
record PayloadCipher(String name, byte[] key, boolean isNative) {
    private static final int TAG_BITS = 8 * Algorithm.TAG_BYTES;

    PayloadCipher(String name, byte[] key) {
        this(name, key, SodiumArrays.AVAILABLE && name.equals(Algorithm.CHACHA20_POLY1305.label()));
    }

    byte[] seal(byte[] iv, byte[] data, byte[] associated) throws GeneralSecurityException {
        return isNative(iv)
                ? SodiumArrays.seal(key, iv, data, associated)
                : run(Cipher.ENCRYPT_MODE, iv, data, associated);
    }

    /** GeneralSecurityException for what is not authentic. */
    byte[] open(byte[] iv, byte[] sealed, byte[] associated) throws GeneralSecurityException {
        if (!isNative(iv)) {
            return run(Cipher.DECRYPT_MODE, iv, sealed, associated);
        }
        byte[] data = SodiumArrays.open(key, iv, sealed, associated);
        if (data == null) {
            throw new AEADBadTagException("not authentic");
        }
        return data;
    }

    /** libsodium reads nonce and key at their addresses: other lengths are left to the JDK, which refuses them. */
    private boolean isNative(byte[] iv) {
        return isNative && iv.length == Algorithm.IV_BYTES && key.length == Algorithm.DATA_KEY_BYTES;
    }

    private byte[] run(int mode, byte[] iv, byte[] data, byte[] associated) throws GeneralSecurityException {
        boolean isAes = name.equals(Algorithm.AES_256_GCM.label());
        Cipher cipher = Cipher.getInstance(isAes ? "AES/GCM/NoPadding" : "ChaCha20-Poly1305");
        AlgorithmParameterSpec how = isAes ? new GCMParameterSpec(TAG_BITS, iv) : new IvParameterSpec(iv);
        cipher.init(mode, new SecretKeySpec(key, isAes ? "AES" : "ChaCha20"), how);
        cipher.updateAAD(associated);
        return cipher.doFinal(data);
    }

    @Override
    public String toString() {
        return "PayloadCipher " + name;
    }
}
