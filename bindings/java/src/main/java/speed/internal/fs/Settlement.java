package speed.internal.fs;

import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import speed.internal.core.Verdict;
import speed.internal.wire.Cursor;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;

/**
 * A lane as a caller reads it once its server is gone or was replaced: what the server committed tells what it began.
 *
 * @param root path of the communication directory
 * @param caller who wrote the lane
 * @param server who read it
 */
public record Settlement(String root, String caller, String server, Keyring keyring) {
    /** A file that is listed may be gone when it is opened: a successor has just taken over. */
    private static final int MOST_LOOKS = 5;

    /** What decides: nothing, a cursor, or that there was none; {@code isGone}: the files changed meanwhile. */
    private record Found(boolean decides, Cursor cursor, boolean isGone) {
        static final Found NOTHING = new Found(false, null, false);
        static final Found CHANGED = new Found(false, null, true);
    }

    /**
     * The verdict on a call, which is final; null where nothing decides.
     *
     * @param generation of the server that the call was written to
     * @param sequences of all its envelopes
     * @param needed how many of them make it whole
     * @param isOver whether the process of that generation is known to be gone, or left in order
     */
    public Verdict verdict(int generation, List<Long> sequences, int needed, BooleanSupplier isOver) {
        LaneMac mac = new LaneMac(keyring, NodeId.of(caller), NodeId.of(server));
        boolean over = isOver.getAsBoolean(); // first: whoever is over commits nothing more
        try (Directory lane = Directory.open(Names.laneDirectory(root, server, caller))) {
            Found found = look(lane, mac, generation, over);
            for (int looks = 1; found.isGone && looks < MOST_LOOKS; looks++) {
                found = look(lane, mac, generation, over);
            }
            if (!found.decides) {
                return null;
            }
            return found.cursor == null ? Verdict.NOT_BEGUN : Verdict.of(found.cursor, sequences, needed);
        } catch (PosixException unread) {
            return null;
        }
    }

    private static Found look(Directory lane, LaneMac mac, int generation, boolean isOver) throws PosixException {
        Listing listing = Listing.of(lane);
        int later = later(listing, generation);
        if (later > 0) {
            return ofLater(lane, mac, later, listing.starts().contains(later), isOver);
        }
        if (!isOver) {
            return Found.NOTHING;
        }
        if (listing.cursors().contains(generation)) {
            return found(lane, Names.cursorName(generation), Listing.readCursor(lane, generation, mac), true);
        }
        // Never opened, or a successor is just taking over: then its files are there by now.
        Listing again = Listing.of(lane);
        boolean isStill = later(again, generation) == 0 && !again.cursors().contains(generation);
        return isStill ? new Found(true, null, false) : Found.CHANGED;
    }

    private static int later(Listing listing, int generation) {
        return Stream.concat(listing.starts().stream(), listing.cursors().stream())
                .filter(one -> one > generation)
                .min(Integer::compare)
                .orElse(0);
    }

    private static Found ofLater(Directory lane, LaneMac mac, int later, boolean isStart, boolean isOver)
            throws PosixException {
        String name = isStart ? Names.startName(later) : Names.cursorName(later);
        Cursor cursor = Listing.readCursor(lane, name, later, mac);
        return found(lane, name, cursor, cursor != null && (cursor.sealed() || isOver));
    }

    private static Found found(Directory lane, String name, Cursor cursor, boolean decides) throws PosixException {
        if (cursor != null) {
            return decides ? new Found(true, cursor, false) : Found.NOTHING;
        }
        try {
            lane.status(name);
            return Found.NOTHING; // it is there, and not authentic
        } catch (PosixException error) {
            if (error.saysGone()) {
                return Found.CHANGED;
            }
            throw error;
        }
    }
}
