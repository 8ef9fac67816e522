package speed.message;

import java.util.List;
import speed.internal.message.Compression;

/**
 * What is done to one message that is sent: compressed, encrypted, then signed. Immutable; what is null is left to
 * the node's {@link MessageSecurity}.
 *
 * <pre>{@code
 * node.send("billing", order, SendOptions.DEFAULT.withProtection(
 *         Protection.NONE.encryptTo(reader).signWith(signing).classified("confidential")));
 * }</pre>
 *
 * @param recipients keys of those who may read it, all of one algorithm
 * @param signer a secret key for signatures
 * @param compression {@code none}, {@code gzip}, {@code zstd}, {@code lz4} or {@code snappy}
 * @param level {@code public}, {@code internal}, {@code confidential} or {@code restricted}
 * @param containsPii whether it holds personal data
 * @param direct whether RSA encrypts the payload itself
 * @param aad further bytes that are authenticated and travel in the clear
 */
public record Protection(
        List<MessageKey> recipients,
        MessageKey signer,
        String compression,
        String level,
        boolean containsPii,
        boolean direct,
        byte[] aad) {
    /** Asks for nothing. */
    public static final Protection NONE = new Protection(null, null, null, null, false, false, new byte[0]);

    /**
     * Encrypts the payload for the holders of some keys.
     *
     * @param keys public parts, or shared keys; none to leave it in the clear
     * @return such a protection
     */
    public Protection encryptTo(MessageKey... keys) {
        return new Protection(List.of(keys), signer, compression, level, containsPii, direct, aad);
    }

    /**
     * Signs the message.
     *
     * @param key a secret key for Ed25519 or HMAC
     * @return such a protection
     */
    public Protection signWith(MessageKey key) {
        return new Protection(recipients, key, compression, level, containsPii, direct, aad);
    }

    /**
     * Compresses the payload.
     *
     * @param encoding {@code none}, {@code gzip}, {@code zstd}, {@code lz4} or {@code snappy}
     * @return such a protection
     */
    public Protection compressed(String encoding) {
        return new Protection(recipients, signer, encoding, level, containsPii, direct, aad);
    }

    /**
     * Says how sensitive it is; from {@code confidential} on it must be encrypted.
     *
     * @param classification {@code public}, {@code internal}, {@code confidential} or {@code restricted}
     * @return such a protection
     */
    public Protection classified(String classification) {
        return new Protection(recipients, signer, compression, classification, containsPii, direct, aad);
    }

    /**
     * Says that it holds personal data.
     *
     * @return such a protection
     */
    public Protection withPii() {
        return new Protection(recipients, signer, compression, level, true, direct, aad);
    }

    /**
     * Has RSA encrypt a small payload itself.
     *
     * @return such a protection
     */
    public Protection directly() {
        return new Protection(recipients, signer, compression, level, containsPii, true, aad);
    }

    /**
     * Authenticates further bytes with an encrypted payload.
     *
     * @param bytes they travel in the clear
     * @return such a protection
     */
    public Protection withAad(byte[] bytes) {
        return new Protection(recipients, signer, compression, level, containsPii, direct, bytes.clone());
    }

    /** The same, with what a node does by default where this says nothing. */
    Protection or(Protection usual) {
        List<MessageKey> readers = recipients != null ? recipients : usual.recipients;
        String encoding = compression != null ? compression : usual.compression;
        return new Protection(
                readers != null ? readers : List.of(),
                signer != null ? signer : usual.signer,
                encoding != null ? encoding : Compression.NONE,
                level != null ? level : usual.level,
                containsPii || usual.containsPii,
                direct,
                aad);
    }

    boolean isEncrypting() {
        return recipients != null && !recipients.isEmpty();
    }

    @Override
    public String toString() {
        return "Protection to " + recipients + " by " + signer;
    }
}
