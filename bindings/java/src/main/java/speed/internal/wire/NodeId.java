package speed.internal.wire;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/**
 * The 16 bytes that stand for a node's name on the wire: a UUIDv8 of the name.
 *
 * @param high the first eight bytes, big-endian
 * @param low the last eight bytes
 */
public record NodeId(long high, long low) {
    private static final byte[] NAMESPACE = HexFormat.of().parseHex(Limits.NODE_ID_NAMESPACE_HEX);

    /** The id of a node name. */
    public static NodeId of(String name) {
        ByteBuffer digest = ByteBuffer.wrap(Hashes.sha256(NAMESPACE, name.getBytes(StandardCharsets.UTF_8)));
        long high = digest.getLong() & ~0xF000L | 0x8000L;
        long low = digest.getLong() & ~(0x3L << 62) | 0x2L << 62;
        return new NodeId(high, low);
    }

    /** The id at an offset of a buffer in network order. */
    public static NodeId at(ByteBuffer data, int offset) {
        return new NodeId(data.getLong(offset), data.getLong(offset + 8));
    }

    /** Puts the 16 bytes at an offset. */
    public void put(ByteBuffer into, int offset) {
        into.putLong(offset, high).putLong(offset + 8, low);
    }

    /** The 16 bytes. */
    public byte[] bytes() {
        return ByteBuffer.allocate(Limits.NODE_ID_BYTES)
                .putLong(high)
                .putLong(low)
                .array();
    }

    /** The 32 hexadecimal digits, as in an entry. */
    public String hex() {
        return HexFormat.of().formatHex(bytes());
    }
}
