package speed.internal.wire;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import speed.errors.WireException;

/**
 * A message of a durable topic, as its host keeps and delivers it (D-4).
 *
 * @param keyHash 32 bits
 * @param about what was said of it
 * @param packed its payload in msgpack; nothing of a tombstone
 */
public record TopicRecord(
        int type, int attempts, long keyHash, long dueMs, long sequence, Map<Object, Object> about, byte[] packed) {
    public static final int TOMBSTONE = 1;
    public static final int DEAD_LETTER = 2;
    private static final int HEAD_BYTES = 32;
    private static final String WHAT = "what is said of a message";

    /** WireException BAD_JOURNAL, BAD_PAYLOAD. */
    public static TopicRecord read(byte[] data) {
        if (data.length < HEAD_BYTES) {
            throw new WireException("BAD_JOURNAL", "the head of a message is cut");
        }
        ByteBuffer head = ByteBuffer.wrap(data);
        int type = head.get(1);
        long end = HEAD_BYTES + Integer.toUnsignedLong(head.getInt(24));
        boolean isKnown = head.get(0) == 1 && type >= 0 && type <= DEAD_LETTER && head.getInt(28) == 0;
        if (!isKnown || end > data.length) {
            throw new WireException("BAD_JOURNAL", "no head of a message of version 1");
        }
        byte[] metadata = Arrays.copyOfRange(data, HEAD_BYTES, (int) end);
        return new TopicRecord(
                type,
                Short.toUnsignedInt(head.getShort(2)),
                Integer.toUnsignedLong(head.getInt(4)),
                head.getLong(8),
                head.getLong(16),
                ValueReader.decodeMap(metadata, WHAT),
                Arrays.copyOfRange(data, (int) end, data.length));
    }

    /** The value that was published; null where there is none. */
    public Object payload() {
        return packed.length == 0 ? null : ValueReader.decode(packed, "payload");
    }
}
