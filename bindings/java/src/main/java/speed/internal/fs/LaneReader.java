package speed.internal.fs;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;
import speed.internal.core.Counters;
import speed.internal.core.LaneDecoder;
import speed.internal.core.LaneDecoder.LinkReceiver;
import speed.internal.core.LaneProgress;
import speed.internal.core.LaneProgress.Position;
import speed.internal.core.LaneProgress.Token;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.fs.LaneFiles.Link;
import speed.internal.wire.Block;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.LaneMac;
import speed.internal.wire.LinkOpener;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;

/**
 * The receiver's end of a lane: reading, checking, committing. Not thread-safe: the lane's lock
 * guards it. Every byte is read into private memory first, so that nothing can change after it was verified.
 */
public final class LaneReader {
    private static final int SAMPLE_BYTES = 1 << 20;
    private static final long NOTHING = -1;
    private static final int MOST_TRIES = 10;

    /** What a read brought, and whether more may wait. */
    public record Batch(List<Received> received, boolean more) {}

    /** What one window cost in bytes, and whether nothing more can be taken from the file now. */
    private record Taken(int bytes, boolean atEnd) {}

    private final String source;
    private final LaneFiles files;
    private final LaneCounts counts;
    private final ReadBuffer buffer;
    private final Openings openings;
    private final LinkOpener opener;
    private final LaneDecoder decoder;
    private final DuplicateSuspects repeats;
    private final LaneProgress progress;
    private final LinkReceiver sequences;
    private final LaneFileWalk walk;
    private final Commits commits;
    private final Redelivery redelivery;
    private final Deliveries deliveries;
    private final SlotReader slots;
    private int needed;
    /** Size of the file when all that it held of an incomplete envelope was looked at. */
    private long lookedAt = NOTHING;

    private final boolean hasTakenOver;

    private LaneReader(Link link, LaneFiles files, ReadBuffer buffer, IntPredicate isLive) throws PosixException {
        NodeId sender = NodeId.of(link.source());
        NodeId receiver = NodeId.of(link.target());
        source = link.source();
        this.files = files;
        this.buffer = buffer;
        counts = new LaneCounts();
        openings = new Openings(link, files);
        opener = new LinkOpener(link.keyring(), sender, receiver, link.isEphemeral() ? link.generation() : 0, openings);
        decoder = new LaneDecoder(sender, receiver, this::open);
        files.sealCursorsBelow(link.generation());
        Succession former = new Succession(files, counts, link);
        repeats = former.repeats();
        sequences = new LinkReceiver(former.cursor().lastSequence());
        progress = new LaneProgress(former.start(), former.cursor().lastSequence());
        commits = new Commits(files, counts, progress, link);
        walk = new LaneFileWalk(files, counts, former.start(), commits::committedGeneration);
        redelivery = new Redelivery(files, decoder, buffer, counts, progress);
        redelivery.add(former.cursor().unfinished(), repeats.isOwnListUncertain());
        slots = new SlotReader(link, files, counts, buffer, walk, progress, isLive);
        deliveries = new Deliveries(files, counts, link.generation(), former.cursor());
        hasTakenOver = commits.takeOver(former.cursor(), repeats.isListUncertain());
    }

    /**
     * Opens a lane where a former process stopped; an own cursor is published before anything is handed out.
     *
     * @param isLive whether the sender has a live entry of a generation
     */
    static LaneReader open(Link link, Quarantine quarantine, ReadBuffer buffer, IntPredicate isLive)
            throws PosixException {
        LaneMac mac = new LaneMac(link.keyring(), NodeId.of(link.source()), NodeId.of(link.target()));
        String path = Names.laneDirectory(link.root(), link.target(), link.source());
        LaneFiles files = new LaneFiles(path, mac, quarantine);
        try {
            LaneReader reader = new LaneReader(link, files, buffer, isLive);
            for (int tries = 0; !reader.hasTakenOver && tries < MOST_TRIES; tries++) {
                files.removeCursor(link.generation());
                files.forgetCursor();
                files.list();
                reader = new LaneReader(link, files, buffer, isLive);
            }
            if (!reader.hasTakenOver) {
                throw new PosixException(PosixException.EAGAIN, path + ": a predecessor goes on writing cursors");
            }
            return reader;
        } catch (PosixException | RuntimeException failure) {
            files.rest();
            throw failure;
        }
    }

    public LaneCounts counts() {
        return counts;
    }

    /** Whether more is handed out and not finished than a lane may have in hand; a payload that was begun is read on. */
    public boolean isFull() {
        return progress.isFull() && !slots.isWaiting();
    }

    /** Whether nothing is in anybody's hands. */
    public boolean isIdle() {
        return progress.unfinished() == 0 && redelivery.isEmpty();
    }

    private byte[] open(Header header, Block data, int at) {
        return ReadBuffer.isGiant(header)
                ? opener.openInPlace(header, data, at)
                : opener.open(header, data, at, buffer.opened(header.payloadBytes()));
    }

    // --- reading ---

    /**
     * Up to the given number of envelopes and bytes; what is not returned because of a failure is read again.
     *
     * @param scan whether this is the periodic look at everything
     */
    public Batch read(int maxEnvelopes, int maxBytes, long now, boolean scan) throws PosixException {
        List<Received> received = new ArrayList<>();
        long taken = 0;
        if (scan) {
            look(now);
        }
        while (received.size() < maxEnvelopes && taken < maxBytes) {
            Taken next = take(received, maxEnvelopes - received.size(), now, scan);
            taken += next.bytes;
            if (next.atEnd) {
                return new Batch(received, false);
            }
        }
        return new Batch(received, true);
    }

    private void look(long now) throws PosixException {
        walk.look(now);
        if (files.hasNewKeys()) { // nothing is left under a key that will be retired
            deliveries.rewrite();
            commits.commit();
        } else if (commits.isDue()) {
            commits.commit();
        }
    }

    /** What is waited for, then what a former process had begun, then what one window brings: nothing overtakes. */
    private Taken take(List<Received> received, int limit, long now, boolean scan) throws PosixException {
        if (slots.isWaiting()) {
            return takeSlotted(received, now, scan);
        }
        if (!redelivery.isEmpty()) {
            return takeAgain(received);
        }
        if (!walk.isOpen() && !openFile(now)) {
            return new Taken(0, true);
        }
        boolean last = walk.successor() != null;
        Taken window = readWindow(received, limit, now, scan, last);
        if (window.atEnd && last) {
            leaveFile();
        }
        return new Taken(window.bytes, window.atEnd && !last && walk.successor() == null);
    }

    private Taken takeSlotted(List<Received> received, long now, boolean scan) throws PosixException {
        SlotReader.State state = slots.read(now, scan);
        if (state == SlotReader.State.MISSING) {
            return new Taken(0, true);
        }
        Token token = slots.awaited();
        Received whole = slots.end(state);
        if (whole == null) {
            drop(token);
            return new Taken(0, false);
        }
        received.add(whole);
        return new Taken(whole.header().payloadBytes(), false);
    }

    private Taken takeAgain(List<Received> received) throws PosixException {
        Received again = redelivery.next();
        commits.touch();
        if (again == null) {
            commits.commit();
            return new Taken(0, false);
        }
        handOut(again.of(openings.fingerprint(again.header().keyId())), 0, received);
        return new Taken(again.header().envelopeBytes(), false);
    }

    /** One whose payload lies in a slot is handed out when that is whole. */
    private void handOut(Received envelope, int at, List<Received> received) {
        if (!envelope.header().has(EnvelopeType.SLOTTED)) {
            received.add(envelope);
        } else if (!slots.await(envelope, at)) {
            drop(envelope.token());
        }
    }

    /** Nothing of it is handed out. */
    private void drop(Token token) {
        finish(token);
        commits.commit();
    }

    /**
     * Takes what one read brings.
     *
     * @param last whether the file had a successor before this read, so that no byte follows what it brings
     */
    private Taken readWindow(List<Received> received, int limit, long now, boolean scan, boolean last)
            throws PosixException {
        if (!last && needed > 0 && walk.available() == lookedAt) {
            walk.lookIfDue(now);
            return new Taken(0, true);
        }
        lookedAt = NOTHING;
        int wanted = maxLaneBytes(scan || last);
        int length = wanted == 0 ? 0 : walk.fill(buffer, wanted);
        walk.lookIfDue(now); // after bytes were read and before they are accepted
        if (length == 0) {
            return new Taken(0, true);
        }
        int visible = walk.visible(length);
        boolean ended = last && length < wanted || visible < length;
        LaneDecoder.Scan scanned = decoder.scan(
                new LaneDecoder.Window(
                        buffer.data(),
                        visible,
                        walk.position().offset(),
                        walk.position().file().generation(),
                        ended,
                        scan),
                limit);
        settle(scanned, ended);
        accept(scanned, received);
        if (scanned.more()) {
            // a search after damage may have authenticated the whole window many times over
            int cost = scanned.hasDamage() ? ReadBuffer.CHUNK_BYTES : 0;
            return new Taken(Math.max(scanned.consumed(), cost), false);
        }
        if (scanned.consumed() > 0 || ended) {
            return new Taken(scanned.consumed(), length < wanted || ended);
        }
        // An incomplete envelope fills the window: more of it may be there, and in a file that nobody writes to
        // any more the next window is all that is left.
        lookedAt = scan && length < wanted ? length : NOTHING;
        return new Taken(0, !last && walk.available() < scanned.needed());
    }

    /** How much to read: a chunk, or all of a large envelope once it is there; 0: wait for it. */
    private int maxLaneBytes(boolean whole) throws PosixException {
        if (needed <= ReadBuffer.CHUNK_BYTES) {
            return ReadBuffer.CHUNK_BYTES;
        }
        long available = walk.available();
        if (available < needed && !whole) {
            return 0;
        }
        return (int) Math.max(ReadBuffer.CHUNK_BYTES, Math.min(needed, available + 1));
    }

    private boolean openFile(long now) throws PosixException {
        boolean opened = walk.open(now);
        if (opened) {
            needed = 0;
            skip();
        }
        return opened;
    }

    /** Nothing before the position is left to hand out. */
    private void skip() {
        if (!progress.tail().equals(walk.position())) {
            progress.skipTo(walk.position());
        }
    }

    /** Moves the position past what was settled, and puts damage aside while its bytes are at hand. */
    private void settle(LaneDecoder.Scan scanned, boolean ended) {
        needed = scanned.needed();
        long base = walk.position().offset();
        List<LaneDecoder.Item> items = scanned.items();
        for (LaneDecoder.Item item : items) {
            if (item instanceof LaneDecoder.Damage damage) {
                boolean isLast = item == items.get(items.size() - 1);
                putAside(damage, base, ended && isLast);
            }
        }
        walk.advance(scanned.consumed());
    }

    /** Keeps damaged bytes with their reason; a torn tail was never acknowledged and is dropped. */
    private void putAside(LaneDecoder.Damage damage, long base, boolean atEnd) {
        if (atEnd && damage.reason().equals("TRUNCATED")) {
            counts.count(Counters.TORN_TAILS);
            return;
        }
        counts.count(Counters.damaged(damage.reason()));
        int bytes = (int) Math.min(damage.end() - damage.start(), SAMPLE_BYTES);
        byte[] sample = buffer.data().copy((int) (damage.start() - base), bytes);
        files.keep(sample, source, walk.position().file(), damage.reason(), damage.start());
    }

    /** Applies the sequence rules and hands out what they let through. */
    private void accept(LaneDecoder.Scan scanned, List<Received> received) {
        long base = walk.position().offset() - scanned.consumed();
        for (LaneDecoder.Item item : scanned.items()) {
            if (item instanceof LaneDecoder.Opened opened) {
                accept(opened, (int) (opened.start() - base), received);
            }
        }
        if (scanned.consumed() > 0
                && progress.tail().offset() != walk.position().offset()) {
            progress.skipTo(walk.position());
            commits.touch();
        }
        buffer.trim();
    }

    private void accept(LaneDecoder.Opened opened, int at, List<Received> received) {
        Header header = opened.header();
        LinkReceiver.Verdict verdict = sequences.judge(header.sequence());
        if (verdict.counted != null) {
            counts.count(verdict.counted);
        }
        if (verdict.isAccepted()) {
            Position start = new Position(walk.position().file(), opened.start());
            Token token = progress.dispatched(header.sequence(), start, opened.end());
            boolean redelivered = repeats.mayBeRepeated(header, token);
            handOut(
                    new Received(
                            header,
                            opened.payload(),
                            redelivered,
                            repeats.isUncertain(token),
                            token,
                            openings.fingerprint(header.keyId())),
                    at,
                    received);
        }
    }

    private void leaveFile() throws PosixException {
        walk.leave();
        skip();
        commits.commit();
    }

    // --- finishing ---

    /** Marks an envelope as done; it is committed with the next ones, with the next scan, or after 1 MiB. */
    public void finishLazily(Token token) {
        commits.finishLazily(token);
    }

    /** Marks an envelope as done. */
    public void finish(Token token) {
        progress.finish(token);
        deliveries.finish(token.sequence);
    }

    /**
     * Commits that a request begins, before its service is invoked: one of an idempotent service is listed as begun, and
     * any other is done with that.
     */
    public Beginning begin(Token token, boolean isIdempotent) {
        if (isIdempotent) {
            progress.begin(token);
        } else {
            finish(token);
        }
        boolean written = commits.commit();
        if (commits.isReplaced()) {
            return Beginning.REPLACED;
        }
        return written ? Beginning.WRITTEN : Beginning.UNWRITTEN;
    }

    /** A request that is for another generation of this node is done: it never begins. */
    public void finishForOther(Token token) {
        commits.keepFirst();
        finish(token);
        commits.commit();
    }

    /** Writes down what is done, and frees the space behind it; false if it could not be written. */
    public boolean commit() {
        return commits.commit();
    }

    /** How often a message that came again has been begun, this time included: written before it is. */
    public int begin(Token token) {
        return deliveries.begin(token.sequence);
    }

    /** Commits and releases; the next process learns that the lane was closed in order. */
    public void close() {
        commits.close();
        abandon();
    }

    /** Holds nothing open until the next use; what was finished is committed first, all else stays as it is. */
    public void rest() {
        if (commits.isDue()) {
            commits.commit();
        }
        release();
    }

    private void release() {
        walk.close();
        files.rest();
    }

    /** Releases the descriptors without writing. */
    public void abandon() {
        release();
    }

    /** Whether the beginning of a request was committed. */
    public enum Beginning {
        /** It is written, and no successor had sealed the cursor by then: the request may begin. */
        WRITTEN,
        /** It could not be written: the request must not begin. */
        UNWRITTEN,
        /** A successor reads this lane: this process was replaced, and nothing begins any more. */
        REPLACED
    }
}
