package speed.internal.wire;

import java.lang.ref.Reference;
import java.security.GeneralSecurityException;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * ChaCha20-Poly1305 (RFC 8439) under one key, applied to whole envelopes: the 88 header bytes, nonce
 * included, are the associated data. libsodium and libcrypto where they can be loaded, else the JDK: the same bytes, slower.
 */
interface Aead {
    /** Seals in place: headers and payload stand at {@code at}, 16 bytes of room follow them. */
    void seal(Block envelope, int at, int payloadBytes);

    /** Opens an envelope into the beginning of another block; false if one bit differs from what was sealed. */
    boolean open(Block envelope, int at, int payloadBytes, Block into);

    /**
     * Opens an envelope in place: its payload stands where its ciphertext stood. Where one bit differs nothing is changed.
     */
    boolean openInPlace(Block envelope, int at, int payloadBytes);

    /** The JDK's cipher, for machines without libsodium: the same bytes, many times slower; thread-safe. */
    static final class JdkAead implements Aead {
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

    /** libsodium and libcrypto on native memory; thread-safe. */
    static final class SodiumAead implements Aead {
        private final Block key;

        SodiumAead(byte[] key) {
            this.key = Block.of(key);
        }

        @Override
        public void seal(Block envelope, int at, int payloadBytes) {
            envelope.check(at, Limits.AAD_BYTES + payloadBytes + Limits.TAG_BYTES);
            long header = envelope.address + at;
            long payload = header + Limits.AAD_BYTES;
            Libcrypto.seal(
                    payload, payload, payloadBytes, header, Limits.AAD_BYTES, header + Header.NONCE_AT, key.address);
            Reference.reachabilityFence(this);
        }

        @Override
        public boolean open(Block envelope, int at, int payloadBytes, Block into) {
            envelope.check(at, Limits.AAD_BYTES + payloadBytes + Limits.TAG_BYTES);
            into.check(0, payloadBytes); // which is filled with zeros where the tag is wrong
            return decrypted(into.address, envelope.address + at, payloadBytes);
        }

        /** Twice over the bytes: only where no byte is to be written does libsodium leave them alone when the tag is wrong. */
        @Override
        public boolean openInPlace(Block envelope, int at, int payloadBytes) {
            envelope.check(at, Limits.AAD_BYTES + payloadBytes + Limits.TAG_BYTES);
            return isAuthentic(envelope.address + at, payloadBytes)
                    && decrypted(envelope.address + at + Limits.AAD_BYTES, envelope.address + at, payloadBytes);
        }

        private boolean isAuthentic(long header, int payloadBytes) {
            int result = Sodium.crypto_aead_chacha20poly1305_ietf_decrypt(
                    0,
                    0,
                    0,
                    header + Limits.AAD_BYTES,
                    payloadBytes + Limits.TAG_BYTES,
                    header,
                    Limits.AAD_BYTES,
                    header + Header.NONCE_AT,
                    key.address);
            return result == 0;
        }

        private boolean decrypted(long into, long header, int payloadBytes) {
            boolean isAuthentic = Libcrypto.open(
                    into,
                    header + Limits.AAD_BYTES,
                    payloadBytes,
                    header,
                    Limits.AAD_BYTES,
                    header + Header.NONCE_AT,
                    key.address);
            Reference.reachabilityFence(this);
            return isAuthentic;
        }
    }
}
