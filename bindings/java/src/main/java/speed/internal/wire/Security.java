package speed.internal.wire;

import java.util.List;
import speed.internal.wire.Fields.EncryptionMetadata;
import speed.internal.wire.Fields.EncryptionRecipient;
import speed.internal.wire.Fields.SecurityContext;
import speed.internal.wire.Records.RecordWriter;

/**
 * What a message says of its publisher, signature, encryption and sensitivity: {@code SecurityContext} of the contract,
 * without token and signature. Absent texts are empty.
 *
 * @param encryption null for a payload in the clear
 */
public record Security(
        String publisherId,
        String publisherTeam,
        String signatureAlgorithm,
        String signatureKeyId,
        boolean containsPii,
        String classification,
        Encrypted encryption) {
    static Security of(Records fields) {
        return new Security(
                fields.textOrEmpty(SecurityContext.PUBLISHER_ID),
                fields.textOrEmpty(SecurityContext.PUBLISHER_TEAM),
                fields.textOrEmpty(SecurityContext.SIGNATURE_ALGORITHM),
                fields.textOrEmpty(SecurityContext.SIGNATURE_KEY_ID),
                fields.number(SecurityContext.CONTAINS_PII) != 0,
                fields.textOrEmpty(SecurityContext.DATA_CLASSIFICATION),
                fields.has(SecurityContext.ENCRYPTION)
                        ? Encrypted.of(fields.message(SecurityContext.ENCRYPTION))
                        : null);
    }

    /** One that says who publishes, and nothing more. */
    public static Security ofPublisher(String publisherId) {
        return new Security(publisherId, "", "", "", false, "", null);
    }

    public Security withEncryption(Encrypted how) {
        return new Security(
                publisherId, publisherTeam, signatureAlgorithm, signatureKeyId, containsPii, classification, how);
    }

    byte[] encode() {
        RecordWriter out = new RecordWriter()
                .text(SecurityContext.PUBLISHER_ID, publisherId)
                .text(SecurityContext.PUBLISHER_TEAM, publisherTeam)
                .text(SecurityContext.SIGNATURE_ALGORITHM, signatureAlgorithm);
        if (encryption != null) {
            out.record(SecurityContext.ENCRYPTION, encryption.encode());
        }
        return out.number(SecurityContext.CONTAINS_PII, containsPii ? 1 : 0)
                .text(SecurityContext.DATA_CLASSIFICATION, classification)
                .text(SecurityContext.SIGNATURE_KEY_ID, signatureKeyId)
                .toByteArray();
    }

    /**
     * How a payload was encrypted for its readers: {@code EncryptionMetadata} of the contract. Absent texts
     * and bytes are empty.
     *
     * @param keyId only of direct RSA
     * @param type of the algorithm
     * @param aad further bytes of the program that are authenticated, not encrypted
     */
    public record Encrypted(
            String keyId, int type, String algorithm, byte[] iv, byte[] aad, List<Recipient> recipients) {
        /** The data key, wrapped for one reader. */
        public record Recipient(String keyId, byte[] encapsulatedKey, byte[] wrappedKey) {
            private byte[] encode() {
                return new RecordWriter()
                        .text(EncryptionRecipient.KEY_ID, keyId)
                        .bytes(EncryptionRecipient.ENCAPSULATED_KEY, encapsulatedKey)
                        .bytes(EncryptionRecipient.WRAPPED_KEY, wrappedKey)
                        .toByteArray();
            }
        }

        static Encrypted of(Records fields) {
            List<Recipient> recipients = fields.list(EncryptionMetadata.RECIPIENTS).stream()
                    .map(one -> new Recipient(
                            one.textOrEmpty(EncryptionRecipient.KEY_ID),
                            one.bytes(EncryptionRecipient.ENCAPSULATED_KEY),
                            one.bytes(EncryptionRecipient.WRAPPED_KEY)))
                    .toList();
            return new Encrypted(
                    fields.textOrEmpty(EncryptionMetadata.KEY_ID),
                    (int) fields.number(EncryptionMetadata.ENCRYPTION_TYPE),
                    fields.textOrEmpty(EncryptionMetadata.ALGORITHM),
                    fields.bytes(EncryptionMetadata.IV),
                    fields.bytes(EncryptionMetadata.AAD),
                    recipients);
        }

        byte[] encode() {
            RecordWriter out = new RecordWriter()
                    .text(EncryptionMetadata.KEY_ID, keyId)
                    .number(EncryptionMetadata.ENCRYPTION_TYPE, type)
                    .text(EncryptionMetadata.ALGORITHM, algorithm)
                    .bytes(EncryptionMetadata.IV, iv)
                    .bytes(EncryptionMetadata.AAD, aad);
            recipients.forEach(one -> out.record(EncryptionMetadata.RECIPIENTS, one.encode()));
            return out.toByteArray();
        }
    }
}
