package speed.internal.wire;

import java.io.ByteArrayOutputStream;
import java.util.Arrays;
import speed.errors.WireException;
import speed.internal.wire.Fields.MessageEnvelope;
import speed.internal.wire.Fields.ProtobufAny;
import speed.internal.wire.Records.RecordWriter;

/**
 * The beginning of a message that is too large to be held: everything that stands before its payload's value. BAD_MESSAGE unless the payload comes last and begins within the first bytes.
 */
public final class MessageFront {
    private static final byte[] PAYLOAD_TAG = RecordWriter.tag(MessageEnvelope.PAYLOAD);
    private static final byte URL_TAG = RecordWriter.tag(ProtobufAny.TYPE_URL)[0];
    private static final byte VALUE_TAG = RecordWriter.tag(ProtobufAny.VALUE)[0];
    private static final int MAX_LENGTH_BYTES = 5;

    private final byte[] data;
    private final long total;
    private final int othersEnd;
    private byte[] url = new byte[0];
    private int at;

    /**
     * Reads a front.
     *
     * @param data the first {@code max_segmented_head_bytes} of the message, or all of it
     * @param total bytes of the whole message
     */
    public MessageFront(byte[] data, long total) {
        this.data = data;
        this.total = total;
        othersEnd = endOfOthers();
        at = othersEnd;
        for (byte one : PAYLOAD_TAG) {
            expect(one);
        }
        expectRest(total);
        if (at < data.length && data[at] == URL_TAG) {
            takeUrl();
        }
        expect(VALUE_TAG);
        expectRest(total);
    }

    /** Where the payload's value begins, which ends with the message. */
    public int start() {
        return at;
    }

    /** Bytes of the whole message. */
    long total() {
        return total;
    }

    /** All bytes before the value. */
    byte[] bytes() {
        return Arrays.copyOf(data, at);
    }

    /** A message of the same records with an empty value. */
    byte[] withoutValue() {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(data, 0, othersEnd);
        out.writeBytes(PAYLOAD_TAG);
        int size = url.length + 2;
        for (; size > 0x7F; size >>>= 7) {
            out.write(size | 0x80);
        }
        out.write(size);
        out.writeBytes(url);
        out.write(VALUE_TAG);
        out.write(0);
        return out.toByteArray();
    }

    /** Where the payload record begins: at the first record that is one, or that reaches beyond these bytes. */
    private int endOfOthers() {
        RecordWalk walk = new RecordWalk(data, 0, data.length);
        int end = 0;
        try {
            while (walk.advance() && !walk.is(MessageEnvelope.PAYLOAD)) {
                end = walk.next();
            }
        } catch (WireException beyond) {
            return end; // whatever begins there, it is looked at next
        }
        return end;
    }

    private void takeUrl() {
        int begin = at++;
        long length = varint();
        if (length > data.length - at) {
            throw broken();
        }
        at += (int) length;
        url = Arrays.copyOfRange(data, begin, at);
    }

    private void expect(byte wanted) {
        if (at >= data.length || data[at++] != wanted) {
            throw broken();
        }
    }

    /** A length that reaches exactly to the end of the message. */
    private void expectRest(long total) {
        long length = varint();
        if (at + length != total) {
            throw broken();
        }
    }

    private long varint() {
        long result = 0;
        for (int count = 0; count < MAX_LENGTH_BYTES && at < data.length; count++) {
            byte one = data[at++];
            result |= (one & 0x7FL) << 7 * count;
            if (one >= 0) {
                return result;
            }
        }
        throw broken();
    }

    private static WireException broken() {
        return new WireException("BAD_MESSAGE", "payload: is not the last record, or begins too late");
    }
}
