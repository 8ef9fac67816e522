package speed.internal.wire;

import java.util.Arrays;
import java.util.Base64;
import speed.errors.WireException;

/**
 * The public keys of a node, in its entry (I-3).
 *
 * @param signing the key that proves what it signed
 * @param exchange the exchange key that never changes
 * @param renewed the exchange key of now
 */
public record Card(byte[] signing, byte[] exchange, byte[] renewed) {
    private static final int KEYS_BYTES = 3 * Curve.BYTES;
    private static final int BYTES = KEYS_BYTES + 64;

    /** The card of the node with this id. */
    public static byte[] of(NodeIdentity identity, NodeId node) {
        byte[] card = Arrays.copyOf(identity.signing(), BYTES);
        System.arraycopy(identity.exchange(), 0, card, Curve.BYTES, Curve.BYTES);
        System.arraycopy(identity.renewed().get(0), 0, card, 2 * Curve.BYTES, Curve.BYTES);
        byte[] signature =
                identity.sign(NodeIdentity.ascii("speed/1 card"), node.bytes(), Arrays.copyOf(card, KEYS_BYTES));
        System.arraycopy(signature, 0, card, KEYS_BYTES, signature.length);
        return card;
    }

    /** WireException BAD_IDENTITY for what its own keys did not sign for this node. */
    public static Card read(byte[] data, NodeId node) {
        if (data.length != BYTES) {
            throw NodeIdentity.refused("no card of a node");
        }
        byte[] keys = Arrays.copyOf(data, KEYS_BYTES);
        byte[] signing = Arrays.copyOf(data, Curve.BYTES);
        byte[] signature = Arrays.copyOfRange(data, KEYS_BYTES, BYTES);
        if (!NodeIdentity.isSigned(signing, signature, NodeIdentity.ascii("speed/1 card"), node.bytes(), keys)) {
            throw NodeIdentity.refused("a card that was not made for this node");
        }
        return new Card(
                signing,
                Arrays.copyOfRange(keys, Curve.BYTES, 2 * Curve.BYTES),
                Arrays.copyOfRange(keys, 2 * Curve.BYTES, KEYS_BYTES));
    }

    /** The same of the text in an entry. */
    public static Card decode(String text, NodeId node) {
        try {
            return read(Base64.getDecoder().decode(text), node);
        } catch (IllegalArgumentException notBase64) {
            throw NodeIdentity.refused("a card that is no Base64");
        }
    }

    /** The card of a node as its entry has it. */
    public static String encode(NodeIdentity identity, NodeId node) {
        return Base64.getEncoder().encodeToString(of(identity, node));
    }

    /** What names the identity in an entry; empty without one, and where the card is not sound. */
    public static String fingerprintIn(Entry entry) {
        try {
            return entry.identity().isEmpty()
                    ? ""
                    : decode(entry.identity(), NodeId.of(entry.name())).fingerprint();
        } catch (WireException refused) {
            return "";
        }
    }

    /** What names the identity. */
    public String fingerprint() {
        return NodeIdentity.fingerprint(signing, exchange);
    }
}
