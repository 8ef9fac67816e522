package speed.internal.wire;

import java.nio.ByteBuffer;
import speed.errors.WireException;

/**
 * Which slot a payload lies in, how long it is, and what opens it.
 *
 * <pre>
 * 0 number  4 zero  8 payload bytes  16 slot key(32)
 * </pre>
 */
public record SlotHead(int number, int payloadBytes, byte[] key) {
    private static final int KEY_AT = 16;

    public byte[] encode() {
        ByteBuffer head = ByteBuffer.allocate(Limits.SLOT_HEAD_BYTES);
        return head.putInt(number).putInt(0).putLong(payloadBytes).put(key).array();
    }

    /** The head in the data; BAD_SLOT if it names no slot, or no payload that could lie there. */
    public static SlotHead decode(byte[] data) {
        require(data.length == Limits.SLOT_HEAD_BYTES, "another length than that of a slot head");
        ByteBuffer head = ByteBuffer.wrap(data);
        int number = head.getInt(0);
        long size = head.getLong(8);
        require(number >= 1 && number <= Limits.MAX_SLOTS, "there is no such slot");
        require(head.getInt(4) == 0, "reserved bytes are not zero");
        require(size >= 1 && size <= Limits.MAX_PAYLOAD_BYTES, "no payload has this size");
        byte[] key = new byte[Limits.KEY_BYTES];
        head.get(KEY_AT, key);
        return new SlotHead(number, (int) size, key);
    }

    private static void require(boolean holds, String message) {
        if (!holds) {
            throw new WireException("BAD_SLOT", message);
        }
    }

    /** Without the key. */
    @Override
    public String toString() {
        return "slot " + number + " with " + payloadBytes + " bytes";
    }
}
