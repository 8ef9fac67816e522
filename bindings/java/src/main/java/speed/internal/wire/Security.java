package speed.internal.wire;

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
        return new Security(fields.textOrEmpty(1), fields.textOrEmpty(2), fields.textOrEmpty(5), fields.textOrEmpty(9),
                fields.number(7) != 0, fields.textOrEmpty(8),
                fields.has(6) ? Encrypted.of(fields.message(6)) : null);
    }

    /** One that says who publishes, and nothing more. */
    public static Security ofPublisher(String publisherId) {
        return new Security(publisherId, "", "", "", false, "", null);
    }

    public Security withEncryption(Encrypted how) {
        return new Security(publisherId, publisherTeam, signatureAlgorithm, signatureKeyId, containsPii, classification,
                how);
    }

    byte[] encode() {
        RecordWriter out = new RecordWriter().text(1, publisherId).text(2, publisherTeam).text(5, signatureAlgorithm);
        if (encryption != null) {
            out.record(6, encryption.encode());
        }
        return out.number(7, containsPii ? 1 : 0).text(8, classification).text(9, signatureKeyId).toByteArray();
    }
}
