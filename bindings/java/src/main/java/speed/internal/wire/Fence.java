package speed.internal.wire;

import java.nio.ByteBuffer;
import speed.errors.WireException;
import speed.internal.wire.Names.LaneFile;

/**
 * The end of all that older generations of a sender wrote by right.
 *
 * <pre>
 * 0 "SPDF"  4 version  5 zero  8 new generation  12 old generation  16 segment  20 zero  24 size  mac(16)
 * </pre>
 */
public record Fence(int newGeneration, LaneFile last, long size) {
    public static final int BYTES = 48;
    private static final int MAGIC = 0x53504446;

    public byte[] encode(LaneMac mac) {
        ByteBuffer body = ByteBuffer.allocate(BYTES);
        body.putInt(MAGIC).putInt(1 << 24).putInt(newGeneration).putInt(last.generation());
        body.putInt((int) last.number()).putInt(0).putLong(size);
        return mac.sign(body.array());
    }

    /** The fence in the data; BAD_FENCE if it is not authentic. */
    public static Fence decode(byte[] data, LaneMac mac) {
        ByteBuffer body = ByteBuffer.wrap(data);
        if (data.length != BYTES || body.getInt(0) != MAGIC || body.get(4) != 1 || !mac.verifies(data, BYTES)) {
            throw new WireException("BAD_FENCE", "no authentic fence of version 1");
        }
        LaneFile last = new LaneFile(body.getInt(12), Integer.toUnsignedLong(body.getInt(16)));
        return new Fence(body.getInt(8), last, body.getLong(24));
    }
}
