package speed.internal.fs;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import speed.errors.LeaseLostException;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress;
import speed.internal.core.LaneProgress.Token;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.fs.LaneFiles.Link;
import speed.internal.wire.Cursor;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.Names.SlotId;

/** Which envelopes of a lane are done, on disk: the cursor, and files removed behind it. Not thread-safe. */
final class Commits {
    private static final long LAZY_BYTES = 1 << 20;

    private final LaneFiles files;
    private final LaneCounts counts;
    private final LaneProgress progress;
    private final int generation;
    private final boolean canSeal;
    private int committedGeneration;
    private long dirty;
    /** Whether earlier generations are known to begin nothing more. */
    private boolean sealed;
    /** The first cursor, as it was published; null until then. */
    private Cursor first;

    private boolean isFirstKept;

    Commits(LaneFiles files, LaneCounts counts, LaneProgress progress, Link link) {
        this.files = files;
        this.counts = counts;
        this.progress = progress;
        generation = link.generation();
        canSeal = link.canSeal();
    }

    /**
     * Publishes the first own cursor; those of former processes are of no use from then on. Without space for it, the
     * one that this process goes on from tells its successor no longer of a clean end.
     *
     * @param isDoubtful whether a newer cursor than that was damaged
     * @return false if a predecessor published a cursor that was not read: all begins again
     */
    boolean takeOver(Cursor former, boolean isDoubtful) throws PosixException {
        boolean reopened = files.listing().cursors().contains(generation);
        if (reopened && !files.isWritable(generation)) {
            throw replaced();
        }
        sealed = reopened && former.receiverGeneration() == generation && former.sealed();
        if (!write(progress.cursor(generation, false))) {
            if (former.clean() && former.receiverGeneration() < generation) {
                rewrite(former.unclean());
            }
            return true;
        }
        List<Integer> cursors = files.list().cursors();
        if (cursors.stream().anyMatch(other -> other > generation)) {
            throw replaced();
        }
        boolean isWritable = false;
        for (int older : cursors) {
            if (older < generation && files.isUnread(older)) {
                return false;
            }
            isWritable |= older < generation && files.isWritable(older);
        }
        if (!reopened && canSeal && !isWritable) {
            sealed = true;
            write(progress.cursor(generation, false));
        }
        if (isDoubtful && !reopened) {
            keepNothing();
        } else {
            first = progress.cursor(generation, false).sealed(sealed);
            isFirstKept = files.listing().starts().contains(generation);
        }
        cursors.stream().filter(older -> older < generation).forEach(files::removeCursor);
        return true;
    }

    /** Nobody knows what had begun: callers must not read it from this cursor. */
    private void keepNothing() {
        try {
            files.keepEmptyStart(generation);
        } catch (PosixException error) {
            counts.count(Counters.STARTS_FAILED);
        }
    }

    private static LeaseLostException replaced() {
        return new LeaseLostException("a newer process reads this lane: this one was replaced");
    }

    /** Whether a successor sealed the cursor that was just written. */
    boolean isReplaced() {
        return files.isSealed();
    }

    /** A request for another generation is about to be finished: what callers judge it by is kept. */
    void keepFirst() {
        if (isFirstKept || first == null) {
            return;
        }
        try {
            files.keepStart(first);
            isFirstKept = true;
        } catch (PosixException error) {
            counts.count(Counters.STARTS_FAILED); // its caller is told that it may have run
        }
    }

    private void rewrite(Cursor former) {
        try {
            files.rewriteCursor(former);
        } catch (PosixException error) {
            counts.count(Counters.COMMITS_FAILED);
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

    /** Writes the cursor, then removes files that nothing needs any more; false if it was not written. */
    boolean commit() {
        Cursor cursor = progress.cursor(generation, false);
        boolean written = write(cursor);
        List<LaneFile> laneFiles = files.laneFiles();
        boolean passed = !laneFiles.isEmpty() && laneFiles.get(0).isBefore(cursor.file());
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
            files.writeCursor(cursor.sealed(sealed));
            committedGeneration = cursor.file().generation();
            dirty = 0;
            return true;
        } catch (PosixException error) {
            counts.count(Counters.COMMITS_FAILED);
            dirty = Math.max(1, dirty);
            return false;
        }
    }

    /** Unlinks the files before the committed position, but for those with an unfinished envelope. */
    private void removePassed(Cursor cursor) {
        Set<LaneFile> wanted = new HashSet<>();
        cursor.unfinished().forEach(entry -> wanted.add(entry.file()));
        files.laneFiles().removeIf(file -> {
            boolean passed = file.isBefore(cursor.file()) && !wanted.contains(file);
            if (passed) {
                files.removeFile(file);
            }
            return passed;
        });
        removeOpenings(cursor.file().generation());
    }

    /** Removes what opened older generations, once none of their files is left. */
    private void removeOpenings(int generation) {
        files.listing().openings().removeIf(opening -> {
            boolean passed = opening.generation() < generation
                    && files.laneFiles().stream().noneMatch(file -> file.generation() == opening.generation());
            if (passed) {
                files.removeOpening(opening);
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
        cursor.unfinished().forEach(entry -> wanted.add(entry.file().generation()));
        slots.removeIf(slot -> {
            boolean passed = slot.generation() < cursor.file().generation() && !wanted.contains(slot.generation());
            if (passed) {
                files.removeSlot(slot);
            }
            return passed;
        });
    }
}
