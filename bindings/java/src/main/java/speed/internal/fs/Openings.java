package speed.internal.fs;

import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.StorageException;
import speed.errors.WireException;
import speed.internal.fs.LaneFiles.Link;
import speed.internal.wire.BoundLink;
import speed.internal.wire.Keyring;
import speed.internal.wire.LinkOpener.BoundKeys;
import speed.internal.wire.Names.OpeningId;
import speed.internal.wire.NodeId;
import speed.internal.wire.NodeIdentity;

/** Keys of the bound links that lead into a lane, by the openings in it, and whose each is. Not thread-safe. */
final class Openings implements BoundKeys {
    private final Link link;
    private final LaneFiles files;
    private final Map<Long, String> fingerprints = new Recent();

    Openings(Link link, LaneFiles files) {
        this.link = link;
        this.files = files;
    }

    @Override
    public NodeIdentity own() {
        return link.identity().get();
    }

    @Override
    public byte[] key(long keyId, int generation) {
        NodeIdentity own = own();
        byte[] opening = own == null ? null : read(new OpeningId(generation, keyId));
        byte[] shared = opening == null ? null : link.keyring().find(BoundLink.sharedKeyId(opening));
        if (shared == null) {
            return null;
        }
        int life = link.isEphemeral() ? link.generation() : 0;
        BoundLink bound = new BoundLink(NodeId.of(link.source()), NodeId.of(link.target()), generation, life);
        BoundLink.Opened opened = bound.accept(own, shared, opening);
        if (Keyring.keyId(opened.key()) != keyId) {
            throw new WireException("BAD_IDENTITY", "an opening under another name");
        }
        fingerprints.put(keyId, opened.fingerprint());
        return opened.key();
    }

    /** Null where there is none; StorageException where the system fails: the lane is read again later. */
    private byte[] read(OpeningId opening) {
        try {
            return files.readOpening(opening);
        } catch (PosixException error) {
            throw new StorageException("an opening cannot be read: " + error.getMessage(), 0);
        }
    }

    /** Of the identity whose envelopes this key seals; empty if it is that of no bound link. */
    String fingerprint(long keyId) {
        return fingerprints.getOrDefault(keyId, "");
    }

    /** A few are in use at a time; a sender can open its link as often as it likes. */
    private static final class Recent extends LinkedHashMap<Long, String> {
        private static final long serialVersionUID = 1L;
        private static final int KEPT = 64;

        Recent() {
            super(16, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, String> eldest) {
            return size() > KEPT;
        }
    }
}
