package speed.internal.fs;

import java.util.function.IntSupplier;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress.Position;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.wire.Header;
import speed.internal.wire.Limits;
import speed.internal.wire.Names.LaneFile;

/**
 * Where the reader of a lane stands: its position, the file open there, and what it knows of fences and newer
 * files. Not thread-safe.
 */
final class LaneFileWalk {
    /** How old the knowledge of fences and newer files may be when bytes are accepted; below any lease. */
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
    LaneFileWalk(LaneFiles files, LaneCounts counts, Position start, IntSupplier committedGeneration) {
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
        position = new Position(position.file(), position.offset() + bytes);
    }

    // --- the open file ---

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

    /** Opens the file at the position, or the next one there is. */
    boolean open(long now) throws PosixException {
        LaneFile file = firstFromHere();
        if (file == null) {
            lookIfDue(now);
            file = firstFromHere();
        }
        file = sure(file, position.file());
        if (file == null || !openTrusted(file, now)) {
            return false;
        }
        if (!file.equals(position.file())) {
            position = new Position(file, 0);
        }
        return true;
    }

    private LaneFile firstFromHere() {
        LaneFile here = position.file();
        return files.laneFiles().stream()
                .filter(file -> !file.isBefore(here))
                .findFirst()
                .orElse(null);
    }

    private boolean openTrusted(LaneFile file, long now) throws PosixException {
        try {
            descriptor = files.openFile(file);
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
                counts.count(Counters.SEGMENTS_REFUSED);
                files.putAside(file, "UNTRUSTED_FILE");
            }
            look(now);
            return false;
        }
    }

    /** Goes to the next file: all of this one was read, and nothing is written to it any more. */
    void leave() throws PosixException {
        close();
        LaneFile successor = sureSuccessor();
        if (successor != null) {
            position = new Position(successor, 0);
        }
    }

    /** The generation that wrote behind a place, in its file or in a later one; 0: none did. */
    int followedBy(Position place, long now) throws PosixException {
        lookIfDue(now);
        if (files.fileBytes(place.file()) > place.offset()) {
            return place.file().generation();
        }
        return files.laneFiles().stream()
                .filter(place.file()::isBefore)
                .findFirst()
                .map(LaneFile::generation)
                .orElse(0);
    }

    /** The file behind this one, as far as is known; null if there is none. */
    LaneFile successor() {
        LaneFile here = position.file();
        return files.listing().lastFile().compareTo(here) <= 0
                ? null
                : files.laneFiles().stream().filter(here::isBefore).findFirst().orElse(null);
    }

    /** The same for who goes there. */
    private LaneFile sureSuccessor() throws PosixException {
        LaneFile here = position.file();
        return sure(successor(), new LaneFile(here.generation(), here.number() + 1));
    }

    /** The next of those that were listed, or the one before it that a long listing may lack: its name is tried. */
    private LaneFile sure(LaneFile listed, LaneFile before) throws PosixException {
        if (listed == null || listed.equals(before) || !files.hasFile(before)) {
            return listed;
        }
        files.laneFiles().add(before);
        files.laneFiles().sort(null);
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

    /** Lists the lane again: fences, newer files, foreign files. */
    void look(long now) throws PosixException {
        looked = now;
        for (String foreign : files.list().foreign()) {
            counts.count(Counters.FOREIGN_FILES);
            files.putAside(foreign, "NO_LANE_FILE");
        }
        fences.look(position.file().generation(), committedGeneration.getAsInt());
    }
}
