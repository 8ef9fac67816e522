package speed.internal.wire;

import java.security.GeneralSecurityException;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** The JDK's cipher, for machines without libsodium: the same bytes, many times slower; thread-safe. */
final class JdkAead implements Aead {
    private final SecretKeySpec key;

    JdkAead(byte[] key) {
        this.key = new SecretKeySpec(key, "ChaCha20");
    }

    @Override
    public void seal(Block envelope, int at, int payloadBytes) {
        try {
            Cipher cipher = cipher(Cipher.ENCRYPT_MODE, envelope, at);
            byte[] sealed = cipher.doFinal(envelope.copy(at + Limits.AAD_BYTES, payloadBytes));
            envelope.bytes.put(at + Limits.AAD_BYTES, sealed);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("the JDK cannot seal", error);
        }
    }

    @Override
    public boolean open(Block envelope, int at, int payloadBytes, Block into) {
        return opened(envelope, at, payloadBytes, into, 0);
    }

    @Override
    public boolean openInPlace(Block envelope, int at, int payloadBytes) {
        return opened(envelope, at, payloadBytes, envelope, at + Limits.AAD_BYTES);
    }

    private boolean opened(Block envelope, int at, int payloadBytes, Block into, int place) {
        try {
            Cipher cipher = cipher(Cipher.DECRYPT_MODE, envelope, at);
            byte[] sealed = envelope.copy(at + Limits.AAD_BYTES, payloadBytes + Limits.TAG_BYTES);
            into.bytes.put(place, cipher.doFinal(sealed));
            return true;
        } catch (AEADBadTagException forged) {
            return false;
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("the JDK cannot open", error);
        }
    }

    private Cipher cipher(int mode, Block envelope, int at) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("ChaCha20-Poly1305");
        cipher.init(mode, key, new IvParameterSpec(envelope.copy(at + Header.NONCE_AT, Limits.NONCE_BYTES)));
        cipher.updateAAD(envelope.copy(at, Limits.AAD_BYTES));
        return cipher;
    }
}
