package speed.internal.wire;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;

/**
 * What an owner says of a node (I-6). Times are Unix seconds.
 *
 * @param kind {@link #VOUCHED} or {@link #REVOKED}
 * @param node the node
 * @param fingerprint whose name it is, or no longer is
 * @param issued when it was made
 * @param until from when it is void; 0 for never
 */
public record Statement(int kind, NodeId node, String fingerprint, long issued, long until) {
    /** The name is that identity's. */
    public static final int VOUCHED = 1;
    /** It no longer is. */
    public static final int REVOKED = 2;

    private static final int FRONT_BYTES = 128;
    private static final int BYTES = FRONT_BYTES + 64;
    private static final int OWNER_AT = 64;
    private static final byte[] MAGIC = {'S', 'P', 'D', 'V', 1};

    /** The bytes that this owner signs. */
    public byte[] signedBy(NodeIdentity owner) {
        ByteBuffer front =
                ByteBuffer.allocate(FRONT_BYTES).put(MAGIC).put((byte) kind).position(8);
        front.putLong(issued).putLong(until).put(node.bytes());
        front.put(HexFormat.of().parseHex(fingerprint)).position(OWNER_AT);
        front.put(owner.signing()).put(owner.exchange());
        byte[] made = Arrays.copyOf(front.array(), BYTES);
        byte[] signature = owner.sign(NodeIdentity.ascii("speed/1 statement"), front.array());
        System.arraycopy(signature, 0, made, FRONT_BYTES, signature.length);
        return made;
    }

    /** What one of these owners says of a node; WireException BAD_IDENTITY for anything else. */
    public static Statement read(byte[] data, NodeId node, Collection<String> owners) {
        if (data.length != BYTES || !Arrays.equals(Arrays.copyOf(data, MAGIC.length), MAGIC)) {
            throw NodeIdentity.refused("no statement of an owner");
        }
        byte[] front = Arrays.copyOf(data, FRONT_BYTES);
        byte[] signing = Arrays.copyOfRange(data, OWNER_AT, OWNER_AT + Curve.BYTES);
        String owner = NodeIdentity.fingerprint(signing, Arrays.copyOfRange(data, OWNER_AT + Curve.BYTES, FRONT_BYTES));
        byte[] signature = Arrays.copyOfRange(data, FRONT_BYTES, BYTES);
        if (!owners.contains(owner)
                || !NodeIdentity.isSigned(signing, signature, NodeIdentity.ascii("speed/1 statement"), front)) {
            throw NodeIdentity.refused("a statement that no known owner signed");
        }
        ByteBuffer read = ByteBuffer.wrap(data);
        int kind = data[MAGIC.length];
        if (!NodeId.at(read, 24).equals(node) || kind != VOUCHED && kind != REVOKED) {
            throw NodeIdentity.refused("a statement of another node, or of another kind");
        }
        String named = HexFormat.of().formatHex(data, 40, 40 + Limits.FINGERPRINT_BYTES);
        return new Statement(kind, node, named, read.getLong(8), read.getLong(16));
    }
}
