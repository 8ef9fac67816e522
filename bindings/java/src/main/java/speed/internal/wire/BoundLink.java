package speed.internal.wire;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import speed.internal.wire.Names.OpeningId;

/**
 * A link that two identities bind: its opening, which its sender leaves in the lane, and its key (I-4, I-5).
 *
 * @param source the sender
 * @param target the receiver
 * @param generation that of the sender
 * @param targetLife the generation of a receiver that is ephemeral; 0 for one that is not
 */
public record BoundLink(NodeId source, NodeId target, int generation, int targetLife) {
    private static final int KEYS_AT = 32;
    private static final int FRONT_BYTES = 192;
    private static final int SHARED_KEY_AT = 16;
    /** Of an opening. */
    public static final int BYTES = FRONT_BYTES + 64;

    private static final byte[] MAGIC = {'S', 'P', 'D', 'O', 1};

    /**
     * A link whose key is known.
     *
     * @param opening what lies in the lane
     * @param key the key that seals
     * @param fingerprint whose link it is
     */
    public record Opened(byte[] opening, byte[] key, String fingerprint) {}

    /**
     * Two identities that bind a link.
     *
     * @param own that of the sender
     * @param card of the receiver, as its entry has it
     * @param to the same, read
     */
    public record Bond(NodeIdentity own, String card, Card to) {
        /** With the node of a card; WireException BAD_IDENTITY for one with a weak key, or that is not of this node. */
        public static Bond of(NodeIdentity own, String card, NodeId node) {
            Card to = Card.decode(card, node);
            own.agree(to.exchange()); // before anything is written
            own.agree(to.renewed());
            return new Bond(own, card, to);
        }
    }

    /**
     * The file that opens a link for its receiver.
     *
     * @param name in the lane
     * @param bytes all of it
     */
    public record OpeningFile(String name, byte[] bytes) {}

    /** The file that holds what was opened. */
    OpeningFile file(Opened opened) {
        String name = Names.openingName(new OpeningId(generation, Keyring.keyId(opened.key)));
        return new OpeningFile(name, opened.opening);
    }

    /** Opens the link under a shared key to the node of a card; the drawn secret is forgotten then. BAD_IDENTITY. */
    public Opened open(NodeIdentity own, Card to, byte[] shared, byte[] drawn) {
        byte[] ephemeral = NodeIdentity.publicOf(drawn);
        ByteBuffer front = ByteBuffer.allocate(FRONT_BYTES).put(MAGIC).position(8);
        front.putInt(generation)
                .putInt(targetLife)
                .putLong(Keyring.keyId(shared))
                .position(KEYS_AT);
        front.put(own.signing())
                .put(own.exchange())
                .put(ephemeral)
                .put(to.exchange())
                .put(to.renewed());
        byte[] key = key(
                shared,
                own.agree(to.exchange()),
                NodeIdentity.agreed(drawn, to.exchange()),
                NodeIdentity.agreed(drawn, to.renewed()),
                to.fingerprint(),
                front.array());
        byte[] opening = Arrays.copyOf(front.array(), BYTES);
        System.arraycopy(own.sign(label(), front.array()), 0, opening, FRONT_BYTES, BYTES - FRONT_BYTES);
        return new Opened(opening, key, own.fingerprint());
    }

    /** The id of the shared key that an opening was made under. BAD_IDENTITY for what is no opening. */
    public static long sharedKeyId(byte[] opening) {
        require(opening.length == BYTES && startsWithMagic(opening), "no opening of a link");
        return ByteBuffer.wrap(opening).getLong(SHARED_KEY_AT);
    }

    /** The key of a link that another node opened to this one. BAD_IDENTITY. */
    public Opened accept(NodeIdentity own, byte[] shared, byte[] opening) {
        require(sharedKeyId(opening) == Keyring.keyId(shared), "an opening under another shared key");
        ByteBuffer read = ByteBuffer.wrap(opening);
        boolean isOurs = read.getInt(8) == generation
                && read.getInt(12) == targetLife
                && Arrays.equals(key(opening, 3), own.exchange());
        require(isOurs, "an opening of another link, or for another identity");
        byte[] front = Arrays.copyOf(opening, FRONT_BYTES);
        byte[] signature = Arrays.copyOfRange(opening, FRONT_BYTES, BYTES);
        boolean isSigned = NodeIdentity.isSigned(key(opening, 0), signature, label(), front);
        require(isSigned, "an opening that its sender did not sign for this link");
        byte[] ephemeral = key(opening, 2);
        byte[] bound = key(
                shared,
                own.agree(key(opening, 1)),
                own.agree(ephemeral),
                own.agreeRenewed(key(opening, 4), ephemeral),
                own.fingerprint(),
                front);
        return new Opened(opening, bound, NodeIdentity.fingerprint(key(opening, 0), key(opening, 1)));
    }

    private byte[] label() {
        byte[] text = NodeIdentity.ascii("speed/1 opening");
        return ByteBuffer.allocate(text.length + 2 * Limits.NODE_ID_BYTES)
                .put(text)
                .put(source.bytes())
                .put(target.bytes())
                .array();
    }

    private byte[] key(byte[] shared, byte[] first, byte[] second, byte[] third, String receiver, byte[] front) {
        byte[] secrets = ByteBuffer.allocate(4 * Curve.BYTES)
                .put(shared)
                .put(first)
                .put(second)
                .put(third)
                .array();
        byte[] text = NodeIdentity.ascii("speed/1 bound link");
        int size = text.length + 2 * Limits.NODE_ID_BYTES + Limits.FINGERPRINT_BYTES + Curve.BYTES;
        ByteBuffer info =
                ByteBuffer.allocate(size).put(text).put(source.bytes()).put(target.bytes());
        info.put(HexFormat.of().parseHex(receiver)).put(Hashes.sha256(front));
        return Hashes.hkdf(secrets, info.array());
    }

    private static boolean startsWithMagic(byte[] opening) {
        return Arrays.equals(Arrays.copyOf(opening, MAGIC.length), MAGIC);
    }

    private static byte[] key(byte[] opening, int which) {
        int from = KEYS_AT + which * Curve.BYTES;
        return Arrays.copyOfRange(opening, from, from + Curve.BYTES);
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw NodeIdentity.refused(otherwise);
        }
    }
}
