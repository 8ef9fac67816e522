package speed.internal.wire;

import java.util.List;
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
                fields.textOrEmpty(1),
                fields.textOrEmpty(2),
                fields.textOrEmpty(5),
                fields.textOrEmpty(9),
                fields.number(7) != 0,
                fields.textOrEmpty(8),
                fields.has(6) ? Encrypted.of(fields.message(6)) : null);
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
        RecordWriter out =
                new RecordWriter().text(1, publisherId).text(2, publisherTeam).text(5, signatureAlgorithm);
        if (encryption != null) {
            out.record(6, encryption.encode());
        }
        return out.number(7, containsPii ? 1 : 0)
                .text(8, classification)
                .text(9, signatureKeyId)
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
                        .text(1, keyId)
                        .bytes(2, encapsulatedKey)
                        .bytes(3, wrappedKey)
                        .toByteArray();
            }
        }

        static Encrypted of(Records fields) {
            List<Recipient> recipients = fields.list(9).stream()
                    .map(one -> new Recipient(one.textOrEmpty(1), one.bytes(2), one.bytes(3)))
                    .toList();
            return new Encrypted(
                    fields.textOrEmpty(1),
                    (int) fields.number(2),
                    fields.textOrEmpty(3),
                    fields.bytes(5),
                    fields.bytes(6),
                    recipients);
        }

        byte[] encode() {
            RecordWriter out = new RecordWriter()
                    .text(1, keyId)
                    .number(2, type)
                    .text(3, algorithm)
                    .bytes(5, iv)
                    .bytes(6, aad);
            recipients.forEach(one -> out.record(9, one.encode()));
            return out.toByteArray();
        }
    }
}
