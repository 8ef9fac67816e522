package speed.message;

import java.security.GeneralSecurityException;
import java.security.spec.AlgorithmParameterSpec;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** AES-256-GCM or ChaCha20-Poly1305 under one key, by the JDK; the tag of 16 bytes follows the ciphertext (M-19). */
record PayloadCipher(String name, byte[] key) {
    private static final int TAG_BITS = 8 * Algorithm.TAG_BYTES;

    byte[] seal(byte[] iv, byte[] data, byte[] associated) throws GeneralSecurityException {
        return run(Cipher.ENCRYPT_MODE, iv, data, associated);
    }

    /** GeneralSecurityException for what is not authentic. */
    byte[] open(byte[] iv, byte[] sealed, byte[] associated) throws GeneralSecurityException {
        return run(Cipher.DECRYPT_MODE, iv, sealed, associated);
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
