package speed.internal.fs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import speed.errors.WireException;
import speed.internal.wire.Cursor;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Names;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.Names.OpeningId;
import speed.internal.wire.Names.SlotId;

/**
 * What lies in a lane directory: files in order, slots, openings, fences, cursors, starts and deliveries with the newest
 * first, foreign names.
 */
record Listing(
        List<LaneFile> laneFiles,
        List<SlotId> slots,
        List<OpeningId> openings,
        List<Integer> fences,
        List<Integer> cursors,
        List<Integer> starts,
        List<Integer> deliveries,
        List<String> foreign) {
    private static final int MAX_FILES = 65536;
    private static final int TORN_READS = 3;

    static Listing of(Directory lane) throws PosixException {
        Listing listing = new Listing(
                new ArrayList<>(),
                new ArrayList<>(),
                new ArrayList<>(),
                new ArrayList<>(),
                new ArrayList<>(),
                new ArrayList<>(),
                new ArrayList<>(),
                new ArrayList<>());
        lane.names(MAX_FILES).forEach(file -> listing.sortIn(file.name()));
        listing.laneFiles.sort(null);
        listing.fences.sort(Comparator.reverseOrder());
        listing.cursors.sort(Comparator.reverseOrder());
        listing.starts.sort(Comparator.reverseOrder());
        listing.deliveries.sort(Comparator.reverseOrder());
        return listing;
    }

    private void sortIn(String name) {
        LaneFile file = Names.parseLaneFile(name);
        if (file != null) {
            laneFiles.add(file);
        } else if (Names.parseSlot(name) != null) {
            slots.add(Names.parseSlot(name));
        } else if (Names.parseCursor(name) > 0) {
            cursors.add(Names.parseCursor(name));
        } else if (Names.parseStart(name) > 0) {
            starts.add(Names.parseStart(name));
        } else if (Names.parseDeliveries(name) > 0) {
            deliveries.add(Names.parseDeliveries(name));
        } else if (Names.parseFence(name) > 0) {
            fences.add(Names.parseFence(name));
        } else if (Names.parseOpening(name) != null) {
            openings.add(Names.parseOpening(name));
        } else if (!name.startsWith(Names.TEMPORARY_PREFIX)) {
            foreign.add(name);
        }
    }

    LaneFile lastFile() {
        return laneFiles.isEmpty() ? LaneFile.NONE : laneFiles.get(laneFiles.size() - 1);
    }

    /** The valid cursor of the newest receiver generation, or null: what the receiver has committed. */
    static Cursor newestCursor(Directory lane, LaneMac mac) throws PosixException {
        for (int receiver : of(lane).cursors()) {
            Cursor found = readCursor(lane, receiver, mac);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /**
     * A valid cursor, or null; a torn read (the writer is just rewriting it) is tried again. Throws where the
     * system failed: then it is neither missing nor damaged.
     */
    static Cursor readCursor(Directory lane, int generation, LaneMac mac) throws PosixException {
        return readCursor(lane, Names.cursorName(generation), generation, mac);
    }

    /** The same of a file that holds a cursor of that generation. */
    static Cursor readCursor(Directory lane, String name, int generation, LaneMac mac) throws PosixException {
        for (int attempt = 0; attempt < TORN_READS; attempt++) {
            try {
                Cursor cursor = Cursor.decode(lane.readSmall(name, Cursor.MAX_BYTES), mac);
                return cursor.receiverGeneration() == generation ? cursor : null;
            } catch (WireException torn) {
                continue;
            } catch (PosixException error) {
                if (error.saysGone()) {
                    return null;
                }
                throw error;
            }
        }
        return null;
    }
}
