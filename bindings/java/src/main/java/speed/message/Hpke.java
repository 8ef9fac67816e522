package speed.message;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import speed.internal.wire.Hashes;

/**
 * HPKE (RFC 9180) in base mode, one message under each context: X-Wing, HKDF-SHA256, AES-256-GCM.
 *
 * @param key of the one message
 * @param nonce of the one message
 */
record Hpke(byte[] key, byte[] nonce) {
    private static final byte[] VERSION = ascii("HPKE-v1");
    private static final byte[] SUITE = suite(0x647a, 0x0001, 0x0002);
    private static final byte BASE_MODE = 0;
    private static final byte[] NONE = {};

    /** The key schedule from the shared secret of the KEM on. */
    static Hpke of(byte[] sharedSecret, byte[] info) {
        ByteArrayOutputStream context = new ByteArrayOutputStream();
        context.write(BASE_MODE);
        context.writeBytes(extract(NONE, "psk_id_hash", NONE));
        context.writeBytes(extract(NONE, "info_hash", info));
        byte[] secret = extract(sharedSecret, "secret", NONE);
        byte[] bound = context.toByteArray();
        return new Hpke(
                expand(secret, "key", bound, Algorithm.DATA_KEY_BYTES),
                expand(secret, "base_nonce", bound, Algorithm.IV_BYTES));
    }

    byte[] seal(byte[] data) throws GeneralSecurityException {
        return cipher().seal(nonce, data, NONE);
    }

    byte[] open(byte[] sealed) throws GeneralSecurityException {
        return cipher().open(nonce, sealed, NONE);
    }

    private PayloadCipher cipher() {
        return new PayloadCipher(Algorithm.X_WING.cipher, key);
    }

    private static byte[] extract(byte[] salt, String label, byte[] material) {
        return Hashes.hmac(salt, joined(VERSION, SUITE, ascii(label), material));
    }

    /** Of at most 32 bytes: one block. */
    private static byte[] expand(byte[] secret, String label, byte[] info, int bytes) {
        byte[] size = ByteBuffer.allocate(Short.BYTES).putShort((short) bytes).array();
        byte[] labelled = joined(size, VERSION, SUITE, ascii(label), info, new byte[] {1});
        return Arrays.copyOf(Hashes.hmac(secret, labelled), bytes);
    }

    private static byte[] suite(int kem, int kdf, int aead) {
        byte[] ids = ByteBuffer.allocate(3 * Short.BYTES)
                .putShort((short) kem)
                .putShort((short) kdf)
                .putShort((short) aead)
                .array();
        return joined(ascii("HPKE"), ids);
    }

    private static byte[] joined(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            out.writeBytes(part);
        }
        return out.toByteArray();
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public String toString() {
        return "Hpke";
    }
}
