package speed.message;

import java.security.GeneralSecurityException;
import speed.errors.EncryptionException;
import speed.internal.wire.Encrypted.Recipient;
import speed.internal.wire.Hashes;
import speed.message.LoadedKey.Kem;
import speed.message.LoadedKey.Kem.Encapsulated;

/**
 * One way to give one recipient the data key, whatever the algorithm.
 *
 * @param key of the recipient
 * @param iv of the message
 * @param contextHash SHA-256 of the context
 */
record Wrapping(MessageKey key, byte[] iv, byte[] contextHash) {
    private static final byte[] NONE = {};

    Recipient wrap(byte[] dataKey) throws GeneralSecurityException {
        Encapsulated made = kem().encapsulate();
        byte[] wrapped = isHpke() ? hpke(made.secret()).seal(dataKey)
                : cipher(made.secret(), made.key()).seal(iv, dataKey, NONE);
        return new Recipient(key.id(), made.key(), wrapped);
    }

    /** EncryptionException without a reason for all that does not open. */
    byte[] unwrap(Recipient from) {
        checkSize("encapsulated_key", from.encapsulatedKey(), key.algorithm().outputBytes);
        checkSize("wrapped_key", from.wrappedKey(), Algorithm.WRAPPED_KEY_BYTES);
        try {
            byte[] secret = kem().decapsulate(from.encapsulatedKey());
            return isHpke() ? hpke(secret).open(from.wrappedKey())
                    : cipher(secret, from.encapsulatedKey()).open(iv, from.wrappedKey(), NONE);
        } catch (GeneralSecurityException | IllegalArgumentException closed) {
            throw new EncryptionException("the data key does not open with key '" + key.id() + "'");
        }
    }

    private static void checkSize(String field, byte[] bytes, int size) {
        if (bytes.length != size) {
            throw new EncryptionException(field + ": has " + bytes.length + " bytes and needs " + size);
        }
    }

    private Kem kem() {
        return (Kem) key.loaded();
    }

    private boolean isHpke() {
        return key.algorithm() == Algorithm.X_WING;
    }

    private Hpke hpke(byte[] secret) {
        return Hpke.of(secret, info(NONE));
    }

    private PayloadCipher cipher(byte[] secret, byte[] encapsulated) {
        return new PayloadCipher(key.algorithm().cipher, Hashes.hkdf(secret, info(encapsulated)));
    }

    private byte[] info(byte[] encapsulated) {
        return new Prefixed("speed/1 message key").text(key.algorithm().label()).bytes(encapsulated)
                .bytes(key.publicBytes()).text(key.id()).raw(contextHash).toByteArray();
    }
}
