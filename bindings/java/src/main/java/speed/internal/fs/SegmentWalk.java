package speed.internal.fs;

import java.util.function.IntSupplier;
import speed.internal.core.Progress.Position;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.wire.Header;
import speed.internal.wire.Limits;
import speed.internal.wire.Names.SegmentId;

/**
 * Where the reader of a lane stands: its position, the segment open there, and what it knows of fences and newer
 * segments. Not thread-safe.
 */
final class SegmentWalk {
    /** How old the knowledge of fences and newer segments may be when bytes are accepted; below any lease. */
    private static final long LOOK_NANOS = 100_000_000;
    private static final long MAX_SEGMENT_BYTES =
            (long) Limits.LANE_WINDOW_BYTES + Limits.MAX_PAYLOAD_BYTES + Header.OVERHEAD;

    private final LaneFiles files;
    private final LaneCounts counts;
    private final KnownFences fences;
    private final IntSupplier committedGeneration;
    private Position position;
    private int descriptor = -1;
    private long looked;

    /** The committed generation is the sender's where the last cursor stands. */
    SegmentWalk(LaneFiles files, LaneCounts counts, Position start, IntSupplier committedGeneration) {
        this.files = files;
        this.counts = counts;
        fences = new KnownFences(files, counts);
        position = start;
        this.committedGeneration = committedGeneration;
    }

    Position position() {
        return position;
    }

    void advance(long bytes) {
        position = new Position(position.segment(), position.offset() + bytes);
    }

    // --- the open segment ---

    boolean isOpen() {
        return descriptor >= 0;
    }

    /** Reads from the position on, up to a number of bytes. */
    int fill(ReadBuffer buffer, int wanted) throws PosixException {
        return buffer.fill(descriptor, position.offset(), wanted);
    }

    /** How many bytes lie behind the position. */
    long available() throws PosixException {
        return Posix.status(descriptor).size() - position.offset();
    }

    /** How many of the bytes at the position were written before the sender lost its name. */
    int visible(int length) {
        return fences.visible(position, length);
    }

    /** Opens the segment at the position, or the next one there is. */
    boolean open(long now) throws PosixException {
        SegmentId segment = firstFromHere();
        if (segment == null) {
            lookIfDue(now);
            segment = firstFromHere();
        }
        segment = sure(segment, position.segment());
        if (segment == null || !openTrusted(segment, now)) {
            return false;
        }
        if (!segment.equals(position.segment())) {
            position = new Position(segment, 0);
        }
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
            throw new PosixException(PosixException.EPERM, "larger than any segment");
        } catch (PosixException error) {
            close();
            if (!error.saysGone()) {
                throw error;
            }
            if (!error.is(PosixException.ENOENT)) {
                counts.count("segments_refused");
                files.putAside(segment, "UNTRUSTED_FILE");
            }
            look(now);
            return false;
        }
    }

    /** Goes to the next segment: all of this one was read, and nothing is written to it any more. */
    void leave() throws PosixException {
        close();
        SegmentId successor = sureSuccessor();
        if (successor != null) {
            position = new Position(successor, 0);
        }
    }

    /** The generation that wrote behind a place, in its segment or in a later one; 0: none did. */
    int followedBy(Position place, long now) throws PosixException {
        lookIfDue(now);
        if (files.segmentBytes(place.segment()) > place.offset()) {
            return place.segment().generation();
        }
        return files.segments().stream().filter(place.segment()::isBefore).findFirst().map(SegmentId::generation).orElse(0);
    }

    /** The segment behind this one, as far as is known; null if there is none. */
    SegmentId successor() {
        SegmentId here = position.segment();
        return files.listing().lastSegment().compareTo(here) <= 0 ? null
                : files.segments().stream().filter(here::isBefore).findFirst().orElse(null);
    }

    /** The same for who goes there. */
    private SegmentId sureSuccessor() throws PosixException {
        SegmentId here = position.segment();
        return sure(successor(), new SegmentId(here.generation(), here.segment() + 1));
    }

    /** The next of those that were listed, or the one before it that a long listing may lack: its name is tried. */
    private SegmentId sure(SegmentId listed, SegmentId before) throws PosixException {
        if (listed == null || listed.equals(before) || !files.hasSegment(before)) {
            return listed;
        }
        files.segments().add(before);
        files.segments().sort(null);
        return before;
    }

    void close() {
        Posix.close(descriptor);
        descriptor = -1;
    }

    // --- what is around it ---

    void lookIfDue(long now) throws PosixException {
        if (now - looked > LOOK_NANOS || files.changed()) {
            look(now);
        }
    }

    /** Lists the lane again: fences, newer segments, foreign files. */
    void look(long now) throws PosixException {
        looked = now;
        for (String foreign : files.list().foreign()) {
            counts.count("foreign_files");
            files.putAside(foreign, "NO_LANE_FILE");
        }
        fences.look(position.segment().generation(), committedGeneration.getAsInt());
    }
}
