package speed.message;

import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import speed.errors.ConfigurationException;
import speed.errors.EncryptionException;
import speed.errors.PayloadTooLargeException;
import speed.internal.wire.Hashes;
import speed.internal.wire.Security.Encrypted;
import speed.internal.wire.Security.Encrypted.Recipient;
import speed.message.LoadedKey.Kem;
import speed.message.LoadedKey.Kem.Encapsulated;
import speed.message.LoadedKey.RandomBytes;
import speed.message.PayloadContext.Prefixed;

/** A payload encrypted for its readers, bound to the message that carries it. */
final class Encryption {
    private static final int OAEP_OVERHEAD = 66;
    private static final byte[] NONE = {};

    /** The ciphertext, and what the message says of it. */
    record Made(byte[] ciphertext, Encrypted how) {}

    private Encryption() {}

    /** For the holders of some keys. EncryptionException for keys that cannot be recipients of one message. */
    static Made encrypt(byte[] data, List<MessageKey> keys, PayloadContext context) {
        Algorithm algorithm = commonAlgorithm(keys);
        List<String> ids = keys.stream().map(MessageKey::id).toList();
        byte[] bound = context.hash(algorithm, ids);
        byte[] dataKey = RandomBytes.of(Algorithm.DATA_KEY_BYTES);
        byte[] iv = RandomBytes.of(Algorithm.IV_BYTES);
        try {
            List<Recipient> recipients = new ArrayList<>();
            for (MessageKey key : keys) {
                recipients.add(new Wrapping(key, iv, bound).wrap(dataKey));
            }
            Encrypted how = new Encrypted("", algorithm.type, algorithm.label(), iv, context.aad(), recipients);
            return new Made(new PayloadCipher(algorithm.cipher, dataKey).seal(iv, data, bound), how);
        } catch (GeneralSecurityException broken) {
            throw new EncryptionException("a key of " + ids + " gives no secret: make it anew");
        }
    }

    /** RSA-OAEP of a small payload itself. PayloadTooLargeException above the key's bound. */
    static Made encryptDirectly(byte[] data, List<MessageKey> keys, PayloadContext context) {
        if (keys.size() != 1) {
            throw new ConfigurationException("direct RSA is for one recipient: give one key to encrypt to");
        }
        MessageKey key = keys.get(0);
        if (!(key.loaded() instanceof RsaKey rsa)) {
            throw new EncryptionException("key '" + key.id() + "' is of "
                    + key.algorithm().label() + ": only rsa-oaep encrypts a payload directly");
        }
        int most = key.algorithm().outputBytes - OAEP_OVERHEAD;
        if (data.length > most) {
            throw new PayloadTooLargeException(data.length + " bytes are too many for "
                    + key.algorithm().label() + " itself, which takes " + most + ": do not ask for direct RSA");
        }
        try {
            byte[] label = context.hash(key.algorithm(), List.of(key.id()));
            return new Made(
                    rsa.encrypt(data, label),
                    new Encrypted(
                            key.id(), key.algorithm().type, key.algorithm().label(), NONE, context.aad(), List.of()));
        } catch (GeneralSecurityException broken) {
            throw new EncryptionException("key '" + key.id() + "' does not encrypt: make it anew");
        }
    }

    private static Algorithm commonAlgorithm(List<MessageKey> keys) {
        checkCount(keys.size());
        Algorithm algorithm = keys.get(0).algorithm();
        if (algorithm.isSignature() || keys.stream().anyMatch(key -> key.algorithm() != algorithm)) {
            throw new EncryptionException("recipients: have keys of "
                    + keys.stream()
                            .map(key -> key.algorithm().label())
                            .distinct()
                            .sorted()
                            .toList()
                    + "; one message has one encryption algorithm");
        }
        checkDistinct(keys.stream().map(MessageKey::id).toList());
        return algorithm;
    }

    static void checkCount(int recipients) {
        if (recipients < 1 || recipients > Algorithm.MAX_RECIPIENTS) {
            throw new EncryptionException(
                    "recipients: are " + recipients + ", allowed are 1 to " + Algorithm.MAX_RECIPIENTS);
        }
    }

    static void checkDistinct(List<String> ids) {
        if (new HashSet<>(ids).size() != ids.size()) {
            throw new EncryptionException("recipients: a key id stands there twice");
        }
    }

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
            byte[] wrapped = isHpke()
                    ? hpke(made.secret()).seal(dataKey)
                    : cipher(made.secret(), made.key()).seal(iv, dataKey, NONE);
            return new Recipient(key.id(), made.key(), wrapped);
        }

        /** EncryptionException without a reason for all that does not open. */
        byte[] unwrap(Recipient from) {
            checkSize("encapsulated_key", from.encapsulatedKey(), key.algorithm().outputBytes);
            checkSize("wrapped_key", from.wrappedKey(), Algorithm.WRAPPED_KEY_BYTES);
            try {
                byte[] secret = kem().decapsulate(from.encapsulatedKey());
                return isHpke()
                        ? hpke(secret).open(from.wrappedKey())
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
            return new Prefixed("speed/1 message key")
                    .text(key.algorithm().label())
                    .bytes(encapsulated)
                    .bytes(key.publicBytes())
                    .text(key.id())
                    .raw(contextHash)
                    .toByteArray();
        }
    }
}
