package speed.internal.fs;

import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import speed.errors.WireException;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Block;
import speed.internal.wire.BoundLink;
import speed.internal.wire.Cursor;
import speed.internal.wire.DeliveryCounts;
import speed.internal.wire.Fence;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.Names.OpeningId;
import speed.internal.wire.Names.SlotId;
import speed.internal.wire.NodeIdentity;

/**
 * One lane directory as its receiver sees it: listing, files, fences, the own cursor. Not thread-safe.
 *
 * <p>It is held open, so that replacing its path changes nothing. At rest nothing is held open; what is done then opens it
 * again, and fails if another directory stands in its place by then.
 */
final class LaneFiles {
    private static final int OWNER_WRITES = 0200;
    private static final int WRITE_BITS = 0222;
    private static final int SEALED_BITS = 0440;
    /** A time so far ahead of the clock is no tick that goes on: the clock was set back. */
    private static final long CLOCK_BACK_NANOS = 20_000_000;

    private final String path;
    private final long inode;
    private final LaneMac mac;
    private final Quarantine quarantine;
    private final Block cursorBytes = new Block(Cursor.MAX_BYTES);
    /** Null at rest. */
    private Directory opened;
    /** Files of cursors of earlier generations. */
    private final Set<Long> triedToSeal = new HashSet<>();

    private boolean hasCursor;
    private Keyring.Keys cursorKeys;
    private int cursorDescriptor = -1;
    private long listedModified = -1;
    private Listing listing;

    LaneFiles(String path, LaneMac mac, Quarantine quarantine) throws PosixException {
        this.path = path;
        this.mac = mac;
        this.quarantine = quarantine;
        opened = Directory.open(path);
        try {
            inode = opened.status().inode();
            list();
        } catch (PosixException | RuntimeException failure) {
            opened.close();
            throw failure;
        }
    }

    private Directory directory() throws PosixException {
        if (opened == null) {
            opened = openAgain();
        }
        return opened;
    }

    private Directory openAgain() throws PosixException {
        Directory found = Directory.open(path);
        try {
            if (found.status().inode() == inode) {
                return found;
            }
            throw replaced();
        } catch (PosixException failure) {
            found.close();
            throw failure;
        }
    }

    /** Holds nothing open until the next use. */
    void rest() {
        Posix.close(cursorDescriptor);
        cursorDescriptor = -1;
        if (opened != null) {
            opened.close();
            opened = null;
        }
    }

    /** Whether a file came or went since the last listing, as far as time stamps tell. */
    boolean changed() throws PosixException {
        return directory().status().modifiedNanos() != listedModified;
    }

    private PosixException replaced() {
        return new PosixException(
                PosixException.ENOENT, path + ": it was removed or replaced, and what lay there unread is lost");
    }

    /** A sender whose lane was removed goes on in a new one. */
    private void checkPlace() throws PosixException {
        if (Posix.status(Posix.AT_FDCWD, path).inode() != inode) {
            throw replaced();
        }
    }

    /** Looks at everything again; fails with ENOENT if another directory stands in its place, or none. */
    Listing list() throws PosixException {
        checkPlace();
        long modified = directory().status().modifiedNanos();
        listedModified = isSettled(modified) ? modified : -1;
        listing = Listing.of(directory());
        return listing;
    }

    /** Whether every later change must show another time: the clock that stamps files has passed this one. */
    static boolean isSettled(long modified) {
        long ahead = modified - Posix.fileClockNanos();
        return ahead < 0 || ahead > CLOCK_BACK_NANOS;
    }

    /** What the last listing found. */
    Listing listing() {
        return listing;
    }

    List<LaneFile> laneFiles() {
        return listing.laneFiles();
    }

    /** A descriptor of a regular file of an expected owner. */
    int openFile(LaneFile file) throws PosixException {
        return directory().openRegular(nameOf(file));
    }

    /** Present size of a file, 0 if there is none. */
    long fileBytes(LaneFile file) throws PosixException {
        try {
            return directory().status(nameOf(file)).size();
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return 0;
            }
            throw error;
        }
    }

    /** Whether it can be opened now, whatever was listed. */
    boolean hasFile(LaneFile file) throws PosixException {
        try {
            Posix.close(openFile(file));
            return true;
        } catch (PosixException error) {
            if (error.saysGone()) {
                return false;
            }
            throw error;
        }
    }

    void removeFile(LaneFile file) {
        remove(nameOf(file));
    }

    /** The same as of a file. */
    int openSlot(SlotId slot) throws PosixException {
        return directory().openRegular(Names.slotName(slot));
    }

    void removeSlot(SlotId slot) {
        remove(Names.slotName(slot));
    }

    void removeFence(int generation) {
        remove(Names.fenceName(generation));
    }

    void removeDeliveries(int generation) {
        remove(Names.deliveriesName(generation));
    }

    void removeCursor(int generation) {
        remove(Names.cursorName(generation));
    }

    /** What cannot be removed stays, and is looked at again. */
    private void remove(String name) {
        try {
            directory().removeQuietly(name);
        } catch (PosixException another) {
            // the next read says so
        }
    }

    /** Moves something that does not belong here to quarantine. */
    void putAside(String name, String reason) throws PosixException {
        quarantine.take(directory(), name, reason);
    }

    void putAside(LaneFile file, String reason) throws PosixException {
        putAside(nameOf(file), reason);
    }

    void putAside(SlotId slot, String reason) throws PosixException {
        putAside(Names.slotName(slot), reason);
    }

    /** Keeps damaged bytes of a slot. */
    void keep(byte[] sample, String sender, SlotId slot, String reason, long offset) {
        quarantine.put(sample, sender + " " + Names.slotName(slot), reason, offset);
    }

    /** Keeps damaged bytes. */
    void keep(byte[] sample, String sender, LaneFile file, String reason, long offset) {
        quarantine.put(sample, sender + " " + nameOf(file), reason, offset);
    }

    /** An opening of a bound link; null if it is missing, or no file to trust. */
    byte[] readOpening(OpeningId opening) throws PosixException {
        try {
            return directory().readSmall(Names.openingName(opening), BoundLink.BYTES + 1);
        } catch (PosixException error) {
            if (error.saysGone()) {
                return null;
            }
            throw error;
        }
    }

    void removeOpening(OpeningId opening) {
        remove(Names.openingName(opening));
    }

    /** The fence of a generation; null if it is missing or not authentic. */
    Fence readFence(int generation) throws PosixException {
        try {
            Fence fence = Fence.decode(directory().readSmall(Names.fenceName(generation), Fence.BYTES + 1), mac);
            return fence.newGeneration() == generation ? fence : null;
        } catch (WireException refused) {
            return null;
        } catch (PosixException error) {
            if (error.saysGone()) {
                return null;
            }
            throw error;
        }
    }

    /** The cursor of a receiver's generation; null if it is missing or not authentic. */
    Cursor readCursor(int generation) throws PosixException {
        return Listing.readCursor(directory(), generation, mac);
    }

    /** The deliveries of a receiver's generation; null if they are missing or not authentic. */
    Map<Long, Integer> readDeliveries(int generation) throws PosixException {
        try {
            String name = Names.deliveriesName(generation);
            return DeliveryCounts.decode(directory().readSmall(name, DeliveryCounts.MAX_BYTES + 1), mac);
        } catch (WireException refused) {
            return null;
        } catch (PosixException error) {
            if (error.saysGone()) {
                return null;
            }
            throw error;
        }
    }

    void writeDeliveries(int generation, Map<Long, Integer> begun) throws PosixException {
        Posix.close(directory().replace(Names.deliveriesName(generation), DeliveryCounts.encode(begun, mac)));
    }

    /** Commits in place: one write, whole for every process. */
    void writeCursor(Cursor cursor) throws PosixException {
        cursorKeys = mac.keys(); // before it is made: what changes in between is written again
        byte[] data = cursor.encode(mac);
        String name = Names.cursorName(cursor.receiverGeneration());
        if (!hasCursor) {
            // put in place by a rename, at full size, so that no later commit needs space
            cursorDescriptor = directory().replace(name, Arrays.copyOf(data, Cursor.MAX_BYTES));
            hasCursor = true;
            return;
        }
        if (cursorDescriptor < 0) {
            cursorDescriptor = directory().openRegular(name, Posix.O_WRONLY);
        }
        cursorBytes.bytes.put(0, data);
        Posix.writeAt(cursorDescriptor, cursorBytes, data.length, 0);
    }

    /**
     * Takes the write bits of the cursors of earlier generations away, so that their processes begin nothing more. What
     * cannot be sealed stays as it is, and shows as writable.
     */
    void sealCursorsBelow(int generation) {
        for (int older : listing.cursors()) {
            if (older < generation) {
                seal(Names.cursorName(older));
            }
        }
    }

    private void seal(String name) {
        try {
            int file = directory().openRegular(name);
            try {
                FileStatus status = Posix.status(file);
                triedToSeal.add(status.inode());
                if (status.has(WRITE_BITS)) {
                    Posix.changeMode(file, status.mode() & SEALED_BITS);
                }
            } finally {
                Posix.close(file);
            }
        } catch (PosixException unsealed) {
            // gone, or another member's of the group
        }
    }

    /** Whether the cursor of a generation was published since the others were sealed, and is not read. */
    boolean isUnread(int generation) throws PosixException {
        try {
            FileStatus status = directory().status(Names.cursorName(generation));
            return status.has(WRITE_BITS) && !triedToSeal.contains(status.inode());
        } catch (PosixException error) {
            if (error.saysGone()) {
                return false;
            }
            throw error;
        }
    }

    /** Whether a process of that generation may still commit to its cursor; false where there is none. */
    boolean isWritable(int generation) throws PosixException {
        try {
            return directory().status(Names.cursorName(generation)).has(WRITE_BITS);
        } catch (PosixException error) {
            if (error.saysGone()) {
                return false;
            }
            throw error;
        }
    }

    /** Whether a successor sealed the own cursor, which was just written: looked at by the same descriptor. */
    boolean isSealed() {
        try {
            return cursorDescriptor >= 0 && !Posix.status(cursorDescriptor).has(OWNER_WRITES);
        } catch (PosixException unseen) {
            return true; // nobody knows: then nothing begins
        }
    }

    /** Keeps the first cursor of a generation for callers; the oldest of too many goes. */
    void keepStart(Cursor first) throws PosixException {
        keepStart(first.receiverGeneration(), first.encode(mac));
    }

    /** The same of a generation that does not know what had begun before it: nothing decides. */
    void keepEmptyStart(int generation) throws PosixException {
        keepStart(generation, new byte[0]);
    }

    private void keepStart(int generation, byte[] data) throws PosixException {
        Posix.close(directory().replace(Names.startName(generation), data));
        listing.starts().stream()
                .filter(older -> older < generation)
                .sorted(Comparator.reverseOrder())
                .skip(Limits.MAX_STARTS - 1L)
                .forEach(older -> remove(Names.startName(older)));
    }

    /** The own cursor was removed: the next one is published anew. */
    void forgetCursor() {
        Posix.close(cursorDescriptor);
        cursorDescriptor = -1;
        hasCursor = false;
    }

    /** Whether the keys changed since the own cursor was written. */
    boolean hasNewKeys() {
        return hasCursor && cursorKeys != mac.keys();
    }

    /** Writes the cursor of a former process again in its place, which needs no space. */
    void rewriteCursor(Cursor former) throws PosixException {
        byte[] data = former.encode(mac);
        int file = directory().openRegular(Names.cursorName(former.receiverGeneration()), Posix.O_WRONLY);
        try {
            Posix.writeAt(file, Block.of(data), data.length, 0);
        } finally {
            Posix.close(file);
        }
    }

    private static String nameOf(LaneFile file) {
        return Names.laneFileName(file.generation(), file.number());
    }

    /**
     * From whom to whom a lane leads, and under which root; the generation is the receiver's, which may be ephemeral, and
     * so is the identity of now, null without one. Where the filesystem is remote, its cursors cannot be sealed.
     */
    public record Link(
            String root,
            String source,
            String target,
            int generation,
            Keyring keyring,
            boolean isEphemeral,
            boolean canSeal,
            Supplier<NodeIdentity> identity) {}

    /** What was dropped from a lane or strange in it, by reason. Thread-safe. */
    public static final class LaneCounts {
        private final Map<String, Integer> counts = new ConcurrentHashMap<>();

        void count(String what) {
            counts.merge(what, 1, Integer::sum);
        }

        /** Adds these counts to others. */
        public void addTo(Map<String, Object> total) {
            counts.forEach((what, number) -> total.merge(what, (long) number, (old, more) -> (Long) old + (Long) more));
        }
    }
}
