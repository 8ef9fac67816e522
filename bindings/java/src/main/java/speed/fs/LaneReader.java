package speed.fs;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import speed.core.LaneDecoder;
import speed.core.LinkReceiver;
import speed.core.Position;
import speed.core.Progress;
import speed.core.Token;
import speed.errors.LeaseLostException;
import speed.wire.Block;
import speed.wire.Cursor;
import speed.wire.Header;
import speed.wire.Keyring;
import speed.wire.LaneMac;
import speed.wire.Limits;
import speed.wire.LinkOpener;
import speed.wire.NodeId;
import speed.wire.SegmentId;

/**
 * The receiver's end of a lane: reading, checking, committing (L-10 to L-19). Not thread-safe: the lane's lock
 * guards it. Every byte is read into private memory first, so that nothing can change after it was verified.
 */
public final class LaneReader {
    /** How old the knowledge of fences and newer segments may be when bytes are accepted; below any lease (L-18). */
    private static final long LOOK_NANOS = 100_000_000;
    private static final long MAX_SEGMENT_BYTES =
            (long) Limits.LANE_WINDOW_BYTES + Limits.MAX_PAYLOAD_BYTES + Header.OVERHEAD;
    private static final long LAZY_BYTES = 1 << 20;
    private static final int SAMPLE_BYTES = 1 << 20;

    /** Whose lane it is; the generation is the receiver's. */
    public record Link(String source, String target, int generation, Keyring keyring) {}

    /** What a read brought, and whether more may wait. */
    public record Batch(List<Received> received, boolean more) {}

    /** What one window cost in bytes, and whether nothing more can be taken from the segment now. */
    private record Taken(int bytes, boolean atEnd) {}

    private final Link link;
    private final LaneFiles files;
    private final LinkOpener opener;
    private final LaneDecoder decoder;
    private final ReadBuffer buffer;
    private final KnownFences fences;
    private final Repeats repeats = new Repeats();
    private final LaneCounts counts = new LaneCounts();
    private Redelivery redelivery;
    private Progress progress;
    private LinkReceiver sequences;
    private Position position;
    private int descriptor = -1;
    private int needed;
    private long looked;
    private int committedGeneration;
    private long dirty;

    private LaneReader(Link link, LaneFiles files, ReadBuffer buffer) {
        NodeId source = NodeId.of(link.source);
        NodeId target = NodeId.of(link.target);
        this.link = link;
        this.files = files;
        this.buffer = buffer;
        opener = new LinkOpener(link.keyring, source, target);
        decoder = new LaneDecoder(source, target, this::open);
        fences = new KnownFences(files, counts);
    }

    /** Opens a lane where a former process stopped (L-15). */
    static LaneReader open(Directory directory, Link link, Quarantine quarantine, ReadBuffer buffer)
            throws PosixException {
        try {
            LaneMac mac = new LaneMac(link.keyring.laneKeys(NodeId.of(link.source), NodeId.of(link.target)));
            LaneReader reader = new LaneReader(link, new LaneFiles(directory, mac, quarantine), buffer);
            reader.recover();
            return reader;
        } catch (PosixException | RuntimeException failure) {
            directory.close();
            throw failure;
        }
    }

    public LaneCounts counts() {
        return counts;
    }

    /** Number of envelopes that were handed out and not finished. */
    public int unfinished() {
        return progress.unfinished();
    }

    private byte[] open(Header header, Block data, int at) {
        return opener.open(header, data, at, buffer.opened(header));
    }

    // --- where a former process stopped (L-15) ---

    /** Takes over the newest valid cursor and publishes an own one before anything is handed out. */
    private void recover() {
        List<Integer> cursors = files.listing().cursors();
        if (cursors.stream().anyMatch(generation -> generation > link.generation)) {
            throw new LeaseLostException(
                    "a newer process reads the lane of '" + link.source + "': this one was replaced");
        }
        Cursor cursor = newestCursor();
        position = new Position(cursor.segment(), cursor.offset());
        sequences = new LinkReceiver(cursor.lastSequence());
        progress = new Progress(position, cursor.lastSequence());
        redelivery = new Redelivery(files, decoder, buffer, counts, progress);
        redelivery.add(cursor.unfinished());
        if (!cursor.clean()) {
            SegmentId last = files.listing().lastSegment();
            repeats.suspect(last == SegmentId.NONE ? position : new Position(last, files.segmentBytes(last)));
            if (cursor.unfinished().size() >= Limits.MAX_UNFINISHED) {
                repeats.suspectAll();
            }
        }
        if (writeCursor(progress.cursor(link.generation, false))) {
            cursors.stream().filter(generation -> generation < link.generation).forEach(files::removeCursor);
        }
    }

    private Cursor newestCursor() {
        for (int generation : files.listing().cursors()) {
            Cursor cursor = files.readCursor(generation);
            if (cursor != null) {
                return cursor;
            }
            counts.count("cursors_damaged");
            repeats.suspectAll();
        }
        SegmentId first = files.segments().isEmpty() ? SegmentId.NONE : files.segments().get(0);
        return new Cursor(link.generation, first, 0, 0, List.of(), !repeats.suspectsAll());
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
        if (!redelivery.isEmpty()) {
            taken = redelivery.read(received, maxEnvelopes, maxBytes);
            dirty++;
        }
        if (scan) {
            look(now);
            if (dirty > 0) {
                commit();
            }
        }
        while (received.size() < maxEnvelopes && taken < maxBytes) {
            if (descriptor < 0 && !openNext(now)) {
                return new Batch(received, false);
            }
            boolean last = successor() != null;
            Taken window = readWindow(received, maxEnvelopes - received.size(), now, scan, last);
            taken += window.bytes;
            if (window.atEnd && last) {
                leaveSegment();
            } else if (window.atEnd && successor() == null) {
                return new Batch(received, false);
            }
        }
        return new Batch(received, true);
    }

    /**
     * Takes what one read brings.
     *
     * @param last whether the segment had a successor before this read, so that no byte follows what it brings (L-17)
     */
    private Taken readWindow(List<Received> received, int limit, long now, boolean scan, boolean last)
            throws PosixException {
        int wanted = windowBytes(scan || last);
        int length = wanted == 0 ? 0 : buffer.fill(descriptor, position.offset(), wanted);
        lookIfDue(now); // after bytes were read and before they are accepted (L-18)
        if (length == 0) {
            return new Taken(0, true);
        }
        int visible = fences.visible(position, length);
        boolean ended = last && length < wanted || visible < length;
        LaneDecoder.Scan scanned = decoder.scan(new LaneDecoder.Window(buffer.data(), visible, position.offset(),
                position.segment().generation(), ended, scan), limit);
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
        // An incomplete envelope fills the window: more of it may be there, and in a segment that nobody writes to
        // any more the next window is all that is left.
        return new Taken(0, !last && available() < scanned.needed());
    }

    /** How much to read: a chunk, or all of a large envelope once it is there; 0: wait for it. */
    private int windowBytes(boolean whole) throws PosixException {
        if (needed <= ReadBuffer.CHUNK_BYTES) {
            return ReadBuffer.CHUNK_BYTES;
        }
        long available = available();
        if (available < needed && !whole) {
            return 0;
        }
        return (int) Math.max(ReadBuffer.CHUNK_BYTES, Math.min(needed, available + 1));
    }

    private long available() throws PosixException {
        return Posix.status(descriptor).size() - position.offset();
    }

    /** Moves the position past what was settled, and puts damage aside while its bytes are at hand. */
    private void settle(LaneDecoder.Scan scanned, boolean ended) {
        needed = scanned.needed();
        long base = position.offset();
        List<LaneDecoder.Item> items = scanned.items();
        for (LaneDecoder.Item item : items) {
            if (item instanceof LaneDecoder.Damage damage) {
                boolean isLast = item == items.get(items.size() - 1);
                putAside(damage, base, ended && isLast);
            }
        }
        position = new Position(position.segment(), base + scanned.consumed());
    }

    /** Keeps damaged bytes with their reason; a torn tail was never acknowledged and is dropped (L-17). */
    private void putAside(LaneDecoder.Damage damage, long base, boolean atEnd) {
        if (atEnd && damage.reason().equals("TRUNCATED")) {
            counts.count("torn_tails");
            return;
        }
        counts.count("damaged_" + damage.reason().toLowerCase(java.util.Locale.ROOT));
        int bytes = (int) Math.min(damage.end() - damage.start(), SAMPLE_BYTES);
        byte[] sample = buffer.data().copy((int) (damage.start() - base), bytes);
        files.keep(sample, link.source, position.segment(), damage.reason(), damage.start());
    }

    /** Applies the sequence rules and hands out what they let through. */
    private void accept(LaneDecoder.Scan scanned, List<Received> received) {
        for (LaneDecoder.Item item : scanned.items()) {
            if (item instanceof LaneDecoder.Opened opened) {
                accept(opened, received);
            }
        }
        if (scanned.consumed() > 0 && progress.tail().offset() != position.offset()) {
            progress.skipTo(position);
            dirty++;
        }
        buffer.trim();
    }

    private void accept(LaneDecoder.Opened opened, List<Received> received) {
        Header header = opened.header();
        LinkReceiver.Verdict verdict = sequences.judge(header.sequence());
        if (verdict.counted != null) {
            counts.count(verdict.counted);
        }
        if (verdict.isAccepted()) {
            Position start = new Position(position.segment(), opened.start());
            Token token = progress.dispatched(header.sequence(), start, opened.end());
            boolean redelivered = repeats.mayBeRepeated(header.type(), token);
            received.add(new Received(header, opened.payload(), redelivered, token));
        }
    }

    // --- fences and segments ---

    private void lookIfDue(long now) throws PosixException {
        if (now - looked > LOOK_NANOS || files.changed()) {
            look(now);
        }
    }

    /** Lists the lane again: fences, newer segments, foreign files. */
    private void look(long now) throws PosixException {
        looked = now;
        for (String foreign : files.list().foreign()) {
            counts.count("foreign_files");
            files.putAside(foreign, "NO_LANE_FILE");
        }
        fences.look(position.segment().generation(), committedGeneration);
    }

    private SegmentId successor() {
        SegmentId here = position.segment();
        return files.listing().lastSegment().compareTo(here) <= 0 ? null
                : files.segments().stream().filter(here::isBefore).findFirst().orElse(null);
    }

    /** Goes to the next segment: all of this one was read, and nothing is written to it any more (L-17). */
    private void leaveSegment() {
        release();
        SegmentId successor = successor();
        if (successor != null) {
            position = new Position(successor, 0);
            progress.skipTo(position);
        }
        commit();
    }

    /** Opens the segment at the position, or the next one there is. */
    private boolean openNext(long now) throws PosixException {
        SegmentId segment = firstFromHere();
        if (segment == null) {
            lookIfDue(now);
            segment = firstFromHere();
        }
        if (segment == null || !openTrusted(segment, now)) {
            return false;
        }
        if (!segment.equals(position.segment())) {
            position = new Position(segment, 0);
            progress.skipTo(position);
        }
        needed = 0;
        return true;
    }

    private SegmentId firstFromHere() {
        SegmentId here = position.segment();
        return files.segments().stream().filter(segment -> !segment.isBefore(here)).findFirst().orElse(null);
    }

    private boolean openTrusted(SegmentId segment, long now) throws PosixException {
        try {
            descriptor = files.openSegment(segment);
            if (Posix.status(descriptor).size() <= MAX_SEGMENT_BYTES) {
                return true;
            }
            release();
            throw new PosixException(PosixException.EPERM, "larger than any segment");
        } catch (PosixException error) {
            if (!error.is(PosixException.ENOENT)) {
                counts.count("segments_refused");
                files.putAside(segment, "UNTRUSTED_FILE");
            }
            look(now);
            return false;
        }
    }

    // --- finishing ---

    /** Marks an envelope as done; it is committed with the next ones, with the next scan, or after 1 MiB. */
    public void finishLazily(Token token) {
        progress.finish(token);
        dirty += Math.max(1, token.bytes());
        if (dirty >= LAZY_BYTES) {
            commit();
        }
    }

    /** Marks an envelope as done. */
    public void finish(Token token) {
        progress.finish(token);
    }

    /** Writes the cursor, then removes segments that nothing needs any more (L-14, L-17). */
    public void commit() {
        Cursor cursor = progress.cursor(link.generation, false);
        boolean written = writeCursor(cursor);
        List<SegmentId> segments = files.segments();
        boolean passed = !segments.isEmpty() && segments.get(0).isBefore(cursor.segment());
        if (passed && (written || unfinished() == 0)) {
            // without space for a cursor only this frees some; the next start begins at what is left
            removePassed(cursor);
            if (!written) {
                writeCursor(cursor);
            }
        }
    }

    /** A failure is counted and tried again by the next scan: until then a crash redelivers. */
    private boolean writeCursor(Cursor cursor) {
        try {
            files.writeCursor(cursor);
            committedGeneration = cursor.segment().generation();
            dirty = 0;
            return true;
        } catch (PosixException error) {
            counts.count("commits_failed");
            dirty = Math.max(1, dirty);
            return false;
        }
    }

    /** Unlinks the segments before the committed position, but for those with an unfinished envelope. */
    private void removePassed(Cursor cursor) {
        Set<SegmentId> wanted = new HashSet<>();
        cursor.unfinished().forEach(entry -> wanted.add(entry.segment()));
        files.segments().removeIf(segment -> {
            boolean passed = segment.isBefore(cursor.segment()) && !wanted.contains(segment);
            if (passed) {
                files.removeSegment(segment);
            }
            return passed;
        });
    }

    /** Commits and releases; the cursor says that it was closed in order when nothing is in anybody's hands. */
    public void close() {
        writeCursor(progress.cursor(link.generation, unfinished() == 0));
        abandon();
    }

    /** Releases the descriptors without writing. */
    public void abandon() {
        release();
        files.close();
    }

    private void release() {
        Posix.close(descriptor);
        descriptor = -1;
    }
}
