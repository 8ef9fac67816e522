package speed.internal.wire;

import java.util.function.Consumer;
import speed.internal.wire.BoundLink.Bond;
import speed.internal.wire.BoundLink.OpeningFile;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;

/** Seals envelopes of one link in one generation. Not thread-safe: the link's lock guards it. */
public final class LinkSealer {
    private static final int NONCE_BATCH = 256;

    private final Keyring keyring;
    private final NodeId source;
    private final NodeId target;
    private final int generation;
    private final Consumer<byte[]> random;
    private final byte[] nonces = new byte[NONCE_BATCH * Limits.NONCE_BYTES];
    private int nonceAt = nonces.length;
    private Keyring.Keys keys;
    private long keyId;
    private Aead aead;
    private int targetLife;
    private Bond bond;
    private OpeningFile opening;

    /**
     * A sealer.
     *
     * @param random fills an array from a cryptographic generator
     */
    public LinkSealer(Keyring keyring, NodeId source, NodeId target, int generation, Consumer<byte[]> random) {
        this.keyring = keyring;
        this.source = source;
        this.target = target;
        this.generation = generation;
        this.random = random;
        take(keyring.now());
    }

    private void take(Keyring.Keys newKeys) {
        keys = newKeys;
        keyId = newKeys.idNumber();
        byte[] key = bond == null
                ? Keyring.linkKey(newKeys.first(), source, target, generation, targetLife)
                : boundKey(newKeys.first());
        aead = Keyring.aead(key);
    }

    private byte[] boundKey(byte[] shared) {
        byte[] drawn = new byte[Limits.KEY_BYTES];
        random.accept(drawn);
        BoundLink link = new BoundLink(source, target, generation, targetLife);
        BoundLink.Opened opened = link.open(bond.own(), bond.to(), shared, drawn);
        opening = link.file(opened);
        keyId = Keyring.keyId(opened.key());
        return opened.key();
    }

    /**
     * Seals for this life of an ephemeral receiver from now on, 0 for a receiver that is not ephemeral, and for the
     * identities of a bond, null for a link of none.
     */
    public void sealFor(int life, Bond newBond) {
        if (life != targetLife || newBond != bond) {
            targetLife = life;
            bond = newBond;
            opening = null;
            take(keyring.now());
        }
    }

    /** The same, with this life as it is. */
    public void bind(Bond newBond) {
        sealFor(targetLife, newBond);
    }

    /** What the receiver needs before what was sealed last; null where no identities bind the link. */
    public OpeningFile opening() {
        return opening;
    }

    /** Writes one whole envelope into the block at an offset; returns its bytes. */
    public int seal(Block into, int at, EnvelopeType type, int flags, long counter, long timestampMs, byte[] payload) {
        if (counter < 1 || counter > Sequence.MAX_COUNTER) {
            throw new IllegalStateException("the counter is used up: the node has to start anew");
        }
        if (keys != keyring.now()) {
            take(keyring.now());
        }
        Header header = new Header(
                type, flags, Sequence.of(generation, counter), timestampMs, payload.length, source, target, keyId);
        header.put(into.bytes, at);
        putNonce(into, at + Header.NONCE_AT);
        into.bytes.put(at + Limits.AAD_BYTES, payload);
        aead.seal(into, at, payload.length);
        return header.envelopeBytes();
    }

    /** Each nonce is used once; many are drawn at a time. */
    private void putNonce(Block into, int at) {
        if (nonceAt == nonces.length) {
            random.accept(nonces);
            nonceAt = 0;
        }
        into.bytes.put(at, nonces, nonceAt, Limits.NONCE_BYTES);
        nonceAt += Limits.NONCE_BYTES;
    }
}
