package speed.fs;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import speed.core.Progress;
import speed.core.Token;
import speed.wire.Cursor;
import speed.wire.SegmentId;
import speed.wire.SlotId;

/** Which envelopes of a lane are done, on disk: the cursor, and segments removed behind it. Not thread-safe. */
final class Commits {
    private static final long LAZY_BYTES = 1 << 20;

    private final LaneFiles files;
    private final LaneCounts counts;
    private final Progress progress;
    private final int generation;
    private int committedGeneration;
    private long dirty;

    /** The generation is the receiver's. */
    Commits(LaneFiles files, LaneCounts counts, Progress progress, int generation) {
        this.files = files;
        this.counts = counts;
        this.progress = progress;
        this.generation = generation;
    }

    /**
     * Publishes the first own cursor; those of former processes are of no use from then on. Without space for it, the
     * one that this process goes on from tells its successor no longer of a clean end.
     */
    void takeOver(Cursor former) {
        if (write(progress.cursor(generation, false))) {
            files.listing().cursors().stream().filter(older -> older < generation).forEach(files::removeCursor);
        } else if (former.clean() && former.receiverGeneration() < generation) {
            rewrite(former.unclean());
        }
    }

    private void rewrite(Cursor former) {
        try {
            files.rewriteCursor(former);
        } catch (PosixException error) {
            counts.count("commits_failed");
        }
    }

    /** Something moved that the cursor does not say yet. */
    void touch() {
        dirty++;
    }

    /** The sender's generation where the last cursor stands; 0 before the first. */
    int committedGeneration() {
        return committedGeneration;
    }

    boolean isDue() {
        return dirty > 0;
    }

    /**
     * Marks an envelope as done; it is committed with the next ones, with the next scan, or after 1 MiB, and at once if its
     * payload lies in a slot.
     */
    void finishLazily(Token token) {
        progress.finish(token);
        dirty += Math.max(1, token.bytes());
        if (dirty >= LAZY_BYTES || token.isSlotted()) { // the sender may be out of slots
            commit();
        }
    }

    /** Writes the cursor, then removes segments that nothing needs any more; false if it was not written. */
    boolean commit() {
        Cursor cursor = progress.cursor(generation, false);
        boolean written = write(cursor);
        List<SegmentId> segments = files.segments();
        boolean passed = !segments.isEmpty() && segments.get(0).isBefore(cursor.segment());
        if (passed && (written || progress.unfinished() == 0)) {
            // without space for a cursor only this frees some; the next start begins at what is left
            removePassed(cursor);
            if (!written) {
                written = write(cursor);
            }
        }
        if (written) {
            removePassedSlots(cursor);
        }
        return written;
    }

    /** The last cursor; it says that the lane was closed in order when nothing is in anybody's hands. */
    void close() {
        write(progress.cursor(generation, progress.unfinished() == 0));
    }

    /** A failure is counted and tried again by the next scan: until then a crash redelivers. */
    private boolean write(Cursor cursor) {
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

    /** Unlinks the slots of passed generations, but for those where an unfinished envelope may name one. */
    private void removePassedSlots(Cursor cursor) {
        List<SlotId> slots = files.listing().slots();
        if (slots.isEmpty()) {
            return;
        }
        Set<Integer> wanted = new HashSet<>();
        cursor.unfinished().forEach(entry -> wanted.add(entry.segment().generation()));
        slots.removeIf(slot -> {
            boolean passed = slot.generation() < cursor.segment().generation() && !wanted.contains(slot.generation());
            if (passed) {
                files.removeSlot(slot);
            }
            return passed;
        });
    }
}
