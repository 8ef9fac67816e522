package speed.internal.fs;

import java.util.List;
import speed.errors.LeaseLostException;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress.Position;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.fs.LaneFiles.Link;
import speed.internal.wire.Cursor;
import speed.internal.wire.Limits;
import speed.internal.wire.Names.LaneFile;

/** Where a former process stopped reading a lane, and what it may have handled already. */
final class Succession {
    private final LaneFiles files;
    private final LaneCounts counts;
    private final DuplicateSuspects repeats = new DuplicateSuspects();
    private final Cursor cursor;

    /** A newer process at the lane means that this one was replaced. */
    Succession(LaneFiles files, LaneCounts counts, Link link) throws PosixException {
        int generation = link.generation();
        this.files = files;
        this.counts = counts;
        if (files.listing().cursors().stream().anyMatch(other -> other > generation)) {
            throw new LeaseLostException(
                    "a newer process reads the lane of '" + link.source() + "': this one was replaced");
        }
        if (files.listing().cursors().contains(generation)) {
            repeats.areOwn();
        }
        cursor = newestCursor(link);
        if (!cursor.clean() || repeats.suspectsAll()) {
            suspectWhatLiesThere(generation);
        }
    }

    private Cursor newestCursor(Link link) throws PosixException {
        for (int former : files.listing().cursors()) {
            Cursor found = files.readCursor(former);
            if (found != null) {
                return found;
            }
            counts.count(Counters.CURSORS_DAMAGED);
            repeats.knowNothing();
        }
        return new Cursor(link.generation(), firstFile(link), 0, 0, List.of(), !repeats.suspectsAll(), false);
    }

    /** Where a lane without a cursor begins: with the first life above what was forgotten. */
    private LaneFile firstFile(Link link) throws PosixException {
        int above = FloorFile.forgottenUpTo(link.root(), link.source(), link.keyring());
        return files.laneFiles().stream()
                .filter(file -> file.generation() > above)
                .findFirst()
                .orElse(new LaneFile(above + 1, 0));
    }

    private void suspectWhatLiesThere(int generation) throws PosixException {
        LaneFile last = files.listing().lastFile();
        repeats.suspect(last == LaneFile.NONE ? start() : new Position(last, files.fileBytes(last)));
        if (cursor.unfinished().size() >= Limits.MAX_UNFINISHED) {
            repeats.knowNothingPastTheList(); // more was unfinished than it lists; nothing says what of it was begun
        } else if (cursor.receiverGeneration() == generation) {
            // The lane failed and is opened again, with any number of messages in the program's hands. Which requests
            // were begun the cursor tells: each of them was committed before.
            repeats.suspectAll();
        }
    }

    /** The newest valid cursor, or one that begins at what is left. */
    Cursor cursor() {
        return cursor;
    }

    Position start() {
        return new Position(cursor.file(), cursor.offset());
    }

    DuplicateSuspects repeats() {
        return repeats;
    }
}
