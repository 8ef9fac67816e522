package speed.internal.wire;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;
import speed.errors.WireException;

/**
 * How often messages that came again were begun, by their sequence.
 *
 * <pre>
 *  0 "SPDD"  4 version  5 zero  6 count  8 count × (sequence 8, deliveries 4)  mac(16)
 * </pre>
 */
public final class DeliveryCounts {
    /** Messages in one file at most. */
    public static final int MOST = 4096;

    private static final int FIXED_BYTES = 8;
    private static final int ONE_BYTES = 12;
    private static final int MAGIC = 0x53504444;
    public static final int MAX_BYTES = FIXED_BYTES + MOST * ONE_BYTES + LaneMac.BYTES;

    private DeliveryCounts() {}

    /** The bytes of a file; the sequences in rising order. */
    public static byte[] encode(Map<Long, Integer> counts, LaneMac mac) {
        ByteBuffer body = ByteBuffer.allocate(FIXED_BYTES + counts.size() * ONE_BYTES + LaneMac.BYTES);
        body.putInt(MAGIC).put((byte) 1).put((byte) 0).putShort((short) counts.size());
        TreeMap<Long, Integer> inOrder = new TreeMap<>(Long::compareUnsigned);
        inOrder.putAll(counts);
        inOrder.forEach((sequence, count) -> body.putLong(sequence).putInt(count));
        return mac.sign(body.array());
    }

    /** The counts in the data; BAD_CURSOR if it is no such file. */
    public static Map<Long, Integer> decode(byte[] data, LaneMac mac) {
        ByteBuffer body = ByteBuffer.wrap(data);
        if (data.length < FIXED_BYTES + LaneMac.BYTES || body.getInt(0) != MAGIC || body.get(4) != 1) {
            throw new WireException("BAD_CURSOR", "no deliveries of version 1");
        }
        int count = body.getShort(6) & 0xFFFF;
        int length = FIXED_BYTES + count * ONE_BYTES + LaneMac.BYTES;
        if (count > MOST || data.length != length || !mac.verifies(data, length)) {
            throw new WireException("BAD_CURSOR", "of another length, or the MAC does not fit");
        }
        Map<Long, Integer> counts = new TreeMap<>(Long::compareUnsigned);
        for (int at = FIXED_BYTES; at < length - LaneMac.BYTES; at += ONE_BYTES) {
            counts.put(body.getLong(at), body.getInt(at + 8));
        }
        return counts;
    }
}
