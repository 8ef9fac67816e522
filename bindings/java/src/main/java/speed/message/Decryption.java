package speed.message;

import java.security.GeneralSecurityException;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;
import speed.errors.EncryptionException;
import speed.errors.NoRecipientKeyException;
import speed.internal.message.Compression.Shown;
import speed.internal.wire.MessageView;
import speed.internal.wire.Security.Encrypted;
import speed.internal.wire.Security.Encrypted.Recipient;
import speed.message.Encryption.Wrapping;

/**
 * Opens the encrypted payload of one message. EncryptionException, NoRecipientKeyException,
 * AlgorithmException, and KeyRefusedException for a key that is not for that message.
 */
final class Decryption {
    private static final int SHOWN_IDS = 3;

    /** The payload as it was before encryption, and the key that opened it. */
    record Opened(byte[] payload, MessageKey key) {}

    private final MessageView view;
    private final Encrypted how;
    private final Algorithm algorithm;
    private final Function<String, MessageKey> find;

    private Decryption(MessageView view, Function<String, MessageKey> find, FipsMode mode) {
        this.view = view;
        this.find = find;
        how = view.security().encryption();
        algorithm = Algorithm.of(how.algorithm()).allowedBy(mode);
    }

    /**
     * Opens it.
     *
     * @param find the key of an id that this reader holds, or null
     */
    static Opened open(MessageView view, Function<String, MessageKey> find, FipsMode mode) {
        return new Decryption(view, find, mode).opened();
    }

    private Opened opened() {
        if (algorithm.isSignature() || how.type() != algorithm.type) {
            throw new EncryptionException("encryption_type: " + how.type() + " is not that of " + algorithm.label());
        }
        byte[] payload = view.payloadBytes();
        return how.recipients().isEmpty() && algorithm.isRsa() ? openedDirectly(payload) : openedByDataKey(payload);
    }

    private Opened openedByDataKey(byte[] payload) {
        Encryption.checkCount(how.recipients().size());
        List<String> ids = how.recipients().stream().map(Recipient::keyId).toList();
        Encryption.checkDistinct(ids);
        require(how.iv().length == Algorithm.IV_BYTES, "iv: has " + how.iv().length + " bytes");
        require(payload.length >= Algorithm.TAG_BYTES, "payload: is shorter than a tag");
        MessageKey key = firstHeld(ids);
        byte[] bound = PayloadContext.of(view, how).hash(algorithm, ids);
        Recipient ours = how.recipients().get(ids.indexOf(key.id()));
        byte[] dataKey = new Wrapping(key, how.iv(), bound).unwrap(ours);
        try {
            return new Opened(new PayloadCipher(algorithm.cipher, dataKey).open(how.iv(), payload, bound), key);
        } catch (GeneralSecurityException closed) {
            throw new EncryptionException("the payload does not open: it or what describes it was altered");
        }
    }

    private Opened openedDirectly(byte[] payload) {
        require(
                payload.length == algorithm.outputBytes && how.iv().length == 0,
                "payload: " + algorithm.label() + " itself makes " + algorithm.outputBytes + " bytes and has no iv");
        List<String> ids = List.of(how.keyId());
        MessageKey key = firstHeld(ids);
        byte[] label = PayloadContext.of(view, how).hash(algorithm, ids);
        try {
            return new Opened(((RsaKey) key.loaded()).decrypt(payload, label), key);
        } catch (GeneralSecurityException closed) {
            throw new EncryptionException("the payload does not open with key '" + key.id() + "'");
        }
    }

    /** The first key that is here with its secret; it must be for such a message. */
    private MessageKey firstHeld(List<String> ids) {
        for (String id : ids) {
            MessageKey key = find.apply(id);
            if (key != null && key.hasSecret()) {
                require(
                        key.algorithm() == algorithm,
                        "algorithm: is " + algorithm.label() + ", and key '" + key.id() + "' is of "
                                + key.algorithm().label());
                key.checkUse(view.namespace(), view.topic(), view.publishedAtMs());
                return key;
            }
        }
        String shown = ids.stream().limit(SHOWN_IDS).map(Shown::text).collect(Collectors.joining(", "));
        throw new NoRecipientKeyException(
                "the payload is for holders of '" + shown + "', and none of their keys is here");
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new EncryptionException(otherwise);
        }
    }
}
