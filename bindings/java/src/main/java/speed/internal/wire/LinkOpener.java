package speed.internal.wire;

import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.WireException;

/** Opens envelopes of one link, of any generation and any key of the ring. Not thread-safe. */
public final class LinkOpener {
    private final Keyring keyring;
    private final NodeId source;
    private final NodeId target;
    private final int targetLife;
    private final BoundKeys bound;
    private final Map<Choice, Aead> derived = new Recent();
    private Keyring.Keys keys;
    private Object own;
    private Choice lastChoice;
    private Aead lastAead;

    /** An opener for a receiver that is not ephemeral. */
    public LinkOpener(Keyring keyring, NodeId source, NodeId target) {
        this(keyring, source, target, 0, (keyId, generation) -> null);
    }

    /**
     * An opener.
     *
     * @param targetLife the receiver's generation if it is ephemeral, else 0
     */
    public LinkOpener(Keyring keyring, NodeId source, NodeId target, int targetLife, BoundKeys bound) {
        this.bound = bound;
        this.keyring = keyring;
        this.source = source;
        this.target = target;
        this.targetLife = targetLife;
    }

    /** The payload of a whole envelope, by way of a block that it fits into. */
    public byte[] open(Header header, Block envelope, int at, Block scratch) {
        if (!aead(header).open(envelope, at, header.payloadBytes(), scratch)) {
            throw new WireException("BAD_TAG", "the envelope is not authentic");
        }
        return scratch.copy(0, header.payloadBytes());
    }

    /** The payload of a whole envelope, which then stands in place of its ciphertext; where it fails nothing is changed. */
    public byte[] openInPlace(Header header, Block envelope, int at) {
        if (!aead(header).openInPlace(envelope, at, header.payloadBytes())) {
            throw new WireException("BAD_TAG", "the envelope is not authentic");
        }
        return envelope.copy(at + Limits.AAD_BYTES, header.payloadBytes());
    }

    private Aead aead(Header header) {
        if (keys != keyring.now() || own != bound.own()) { // a key that was retired is not accepted any more
            keys = keyring.now();
            own = bound.own();
            derived.clear();
            lastChoice = null;
        }
        Choice choice = lastChoice;
        if (choice == null || choice.keyId != header.keyId() || choice.generation != header.generation()) {
            choice = new Choice(header.keyId(), header.generation());
            lastAead = derived.computeIfAbsent(choice, this::derive);
            lastChoice = choice;
        }
        return lastAead;
    }

    private Aead derive(Choice wanted) {
        byte[] key = keyring.has(wanted.keyId) ? null : bound.key(wanted.keyId, wanted.generation);
        return key != null
                ? Keyring.aead(key)
                : keyring.opening(wanted.keyId, source, target, wanted.generation, targetLife);
    }

    /** What opens bound links, whose keys no shared key has the id of. */
    public interface BoundKeys {
        /** Another object once the own secrets are others: then what was opened before is opened again. */
        default Object own() {
            return null;
        }

        /** The key of a link; null where nothing opens it. WireException BAD_IDENTITY for what is not sound. */
        byte[] key(long keyId, int generation);
    }

    private record Choice(long keyId, int generation) {}

    /** A few keys are in use at a time; whoever can write to a lane can name any generation. */
    private static final class Recent extends LinkedHashMap<Choice, Aead> {
        private static final long serialVersionUID = 1L;
        private static final int KEPT = 8;

        Recent() {
            super(16, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Choice, Aead> eldest) {
            return size() > KEPT;
        }
    }
}
