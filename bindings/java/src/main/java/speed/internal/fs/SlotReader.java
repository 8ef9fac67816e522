package speed.internal.fs;

import java.util.Arrays;
import java.util.function.IntPredicate;
import speed.errors.WireException;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress;
import speed.internal.core.LaneProgress.Token;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.fs.LaneFiles.Link;
import speed.internal.wire.Limits;
import speed.internal.wire.Names.SlotId;
import speed.internal.wire.SlotPieces;
import speed.internal.wire.SlotPieces.SlotHead;

/**
 * The payload that a lane waits for, which lies in a slot: its pieces are opened as they come, and nothing is handed out
 * before the last one was verified. Not thread-safe.
 */
final class SlotReader {
    /** How long a piece is tried again: about as long as its sender needs for a few. */
    private static final long SOON_NANOS = 200_000;

    /** How far a payload is. */
    enum State {
        MISSING,
        WHOLE,
        LOST
    }

    private final String source;
    private final LaneFiles files;
    private final LaneCounts counts;
    private final ReadBuffer buffer;
    private final LaneFileWalk walk;
    private final LaneProgress progress;
    private final IntPredicate isLive;
    /** Null while nothing is waited for. */
    private Received awaited;

    private SlotId slot;
    private SlotPieces pieces;
    private int next;
    /** Null until the slot was seen to be long enough: a size alone must not cost memory. */
    private byte[] payload;

    /** {@code isLive}: whether the sender has a live entry of a generation. */
    SlotReader(
            Link link,
            LaneFiles files,
            LaneCounts counts,
            ReadBuffer buffer,
            LaneFileWalk walk,
            LaneProgress progress,
            IntPredicate isLive) {
        source = link.source();
        this.files = files;
        this.counts = counts;
        this.buffer = buffer;
        this.walk = walk;
        this.progress = progress;
        this.isLive = isLive;
    }

    boolean isWaiting() {
        return awaited != null;
    }

    /** The envelope whose payload is waited for. */
    Token awaited() {
        return awaited.token();
    }

    /**
     * Waits for the payload of an envelope from now on; false if its head, which then went to quarantine, is none.
     *
     * @param at where the envelope as it came begins in the buffer
     */
    boolean await(Received envelope, int at) {
        Token token = envelope.token();
        try {
            SlotHead head = SlotHead.decode(envelope.payload());
            slot = new SlotId(envelope.header().generation(), head.number());
            pieces = new SlotPieces(head.key(), head.payloadBytes());
            next = 0;
            progress.slotted(token, head.payloadBytes());
            awaited = new Received(
                    envelope.header().with(head.payloadBytes()),
                    null,
                    envelope.redelivered(),
                    envelope.uncertain(),
                    token,
                    envelope.identity());
            return true;
        } catch (WireException refused) {
            int bytes = Math.min(envelope.header().envelopeBytes(), Limits.MAX_QUARANTINED_BYTES);
            files.keep(buffer.data().copy(at, bytes), source, token.file, refused.reason(), token.start);
            counts.count(Counters.DAMAGED_BAD_SLOT);
            return false;
        }
    }

    /**
     * Opens the pieces that are there, and looks for the next one for a short time; then it is whole, or lost, or to be
     * read again later.
     *
     * @param scan whether it is looked at whether the sender is gone
     */
    State read(long now, boolean scan) throws PosixException {
        int file = open();
        try {
            return file < 0 ? torn() : read(file, now, scan);
        } finally {
            Posix.close(file);
        }
    }

    /** -1 for a slot that is absent or untrusted. */
    private int open() throws PosixException {
        try {
            return files.openSlot(slot);
        } catch (PosixException error) {
            if (!error.saysGone()) {
                throw error;
            }
            if (!error.is(PosixException.ENOENT)) {
                counts.count(Counters.SLOTS_REFUSED);
                files.putAside(slot, "UNTRUSTED_FILE");
            }
            return -1;
        }
    }

    private State read(int file, long now, boolean scan) throws PosixException {
        if (isCut(file)) {
            return torn();
        }
        if (payload == null) {
            payload = new byte[awaited.header().payloadBytes()];
        }
        while (next < pieces.count()) {
            if (opens(file) || opensSoon(file)) {
                continue;
            }
            int follower = walk.followedBy(awaited.token().end(), now);
            if (follower == 0 && (!scan || isLive.test(slot.generation()))) {
                return State.MISSING;
            }
            if (!opens(file)) { // once more: it may have been written just before
                // A sender goes on only behind a payload that it wrote; a later life of it need not have.
                return follower == slot.generation() && !isCut(file) ? damaged() : torn();
            }
        }
        return State.WHOLE;
    }

    private boolean isCut(int file) throws PosixException {
        return Posix.status(file).size() < pieces.slotBytes();
    }

    /** Opens the next piece, if it is there. */
    private boolean opens(int file) throws PosixException {
        int size = pieces.sealedBytes(next);
        boolean isThere = buffer.fill(file, pieces.offset(next), size) == size
                && pieces.open(next, buffer.data(), buffer.opened(size), payload);
        if (isThere) {
            next++;
        }
        return isThere;
    }

    private boolean opensSoon(int file) throws PosixException {
        long until = System.nanoTime() + SOON_NANOS;
        while (System.nanoTime() < until) {
            Thread.yield();
            if (opens(file)) {
                return true;
            }
        }
        return false;
    }

    /** What was read last is no piece, and nobody will write one. */
    private State damaged() {
        byte[] sample = buffer.data().copy(0, pieces.sealedBytes(next));
        files.keep(sample, source, slot, "BAD_SLOT", pieces.offset(next));
        counts.count(Counters.DAMAGED_BAD_SLOT);
        return State.LOST;
    }

    private State torn() {
        counts.count(Counters.TORN_SLOTS);
        return State.LOST;
    }

    /** Ends the wait: the envelope with its payload, null instead of one that is lost. */
    Received end(State state) {
        Received whole = state == State.WHOLE ? awaited.with(payload) : null;
        if (whole == null && payload != null) {
            Arrays.fill(payload, (byte) 0);
        }
        awaited = null;
        pieces = null;
        payload = null;
        return whole;
    }
}
