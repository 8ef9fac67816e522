package speed.internal.wire;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import speed.internal.wire.Fields.MessageEnvelope;
import speed.internal.wire.Fields.SecurityContext;
import speed.internal.wire.Records.RecordWriter;

/**
 * The security records of a message, taken apart and put together as raw bytes: nothing is parsed and written
 * again, what is kept is kept byte for byte. BAD_MESSAGE for a record that is malformed or ambiguous.
 */
public final class SignedParts {
    private static final byte[] DOMAIN = "speed/1 message signature".getBytes(StandardCharsets.US_ASCII);

    private final byte[] message;
    private final byte[] security;
    private final List<byte[]> signatures = new ArrayList<>();
    private int restBytes;

    /** Splits a message; nothing outside its security context is copied. */
    public SignedParts(byte[] message) {
        this.message = message;
        byte[] joined = joined(message);
        security =
                kept(joined, record -> !record.is(SecurityContext.AUTH_TOKEN) && !record.is(SecurityContext.SIGNATURE));
        for (RecordWalk walk = new RecordWalk(joined, 0, joined.length); walk.advance(); ) {
            if (walk.is(SecurityContext.SIGNATURE)) {
                signatures.add(walk.copy());
            }
        }
        each(message, (record, start) -> restBytes += record.is(MessageEnvelope.SECURITY) ? 0 : record.next() - start);
    }

    /** The signatures found; one is allowed. */
    public List<byte[]> signatures() {
        return List.copyOf(signatures);
    }

    /** The bytes that are signed: one copy of the message. */
    public byte[] signingInput() {
        ByteBuffer input = ByteBuffer.allocate(3 * Long.BYTES + DOMAIN.length + restBytes + security.length);
        input.putLong(DOMAIN.length).put(DOMAIN).putLong(restBytes);
        each(message, (record, start) -> {
            if (!record.is(MessageEnvelope.SECURITY)) {
                input.put(message, start, record.next() - start);
            }
        });
        return input.putLong(security.length).put(security).array();
    }

    /** The message with a signature as the last record of its one security context; it replaces any other. */
    public static byte[] withSignature(byte[] message, byte[] signature) {
        byte[] unsigned = kept(joined(message), record -> !record.is(SecurityContext.SIGNATURE));
        byte[] security = new RecordWriter()
                .raw(unsigned, 0, unsigned.length)
                .record(SecurityContext.SIGNATURE, signature)
                .toByteArray();
        byte[] rest = kept(message, record -> !record.is(MessageEnvelope.SECURITY));
        int place = afterMetadata(rest);
        return new RecordWriter()
                .raw(rest, 0, place)
                .record(MessageEnvelope.SECURITY, security)
                .raw(rest, place, rest.length)
                .toByteArray();
    }

    /** Where a writer puts the security context. */
    private static int afterMetadata(byte[] rest) {
        RecordWalk walk = new RecordWalk(rest, 0, rest.length);
        return walk.advance() && walk.is(MessageEnvelope.METADATA) ? walk.next() : 0;
    }

    /** The values of all security records, one after the other. */
    private static byte[] joined(byte[] message) {
        RecordWriter values = new RecordWriter();
        each(message, (record, start) -> {
            if (record.is(MessageEnvelope.SECURITY)) {
                values.raw(message, record.value, record.next());
            }
        });
        return values.toByteArray();
    }

    private static byte[] kept(byte[] records, Predicate<RecordWalk> wanted) {
        RecordWriter kept = new RecordWriter();
        each(records, (record, start) -> {
            if (wanted.test(record)) {
                kept.raw(records, start, record.next());
            }
        });
        return kept.toByteArray();
    }

    private static void each(byte[] records, Visitor visitor) {
        RecordWalk walk = new RecordWalk(records, 0, records.length);
        for (int start = 0; walk.advance(); start = walk.next()) {
            visitor.visit(walk, start);
        }
    }

    /** Looks at one record, which begins at {@code start}. */
    private interface Visitor {
        void visit(RecordWalk record, int start);
    }
}
