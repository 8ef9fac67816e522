package speed.internal.fs;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import speed.errors.StorageException;
import speed.internal.core.LaneProgress.Position;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.fs.PosixException.UnclearRenameException;
import speed.internal.wire.Block;
import speed.internal.wire.BoundLink.OpeningFile;
import speed.internal.wire.Cursor;
import speed.internal.wire.Header;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.SlotPieces;

/**
 * The sender's end of a lane: whole envelopes appended to numbered files. Not thread-safe:
 * the link's lock guards it.
 */
public final class LaneWriter {
    private static final long VERIFY_NANOS = 250_000_000;
    private static final int APPEND = Posix.O_APPEND;
    private static final Map<Integer, String> FIXES = Map.of(
            PosixException.ENOSPC, "the filesystem is full: free space, or let the receiver catch up",
            PosixException.EDQUOT, "the disk quota is used up",
            PosixException.EFBIG, "the process's file size limit is reached (ulimit -f)",
            PosixException.EMFILE, "this process has too many open files (ulimit -n)",
            PosixException.EACCES, "the receiver's inbox belongs to another user",
            PosixException.ENOENT, "the receiver has no inbox here: was it ever started on this root?");

    /**
     * How a lane is written.
     *
     * @param maxLaneBytes bound of what is written and not yet committed by the receiver, beside that of files
     * @param renames whether each append becomes one complete file, for filesystems without FIFOs
     * @param durable whether a file is flushed before it is left
     */
    public record WriteOptions(long maxLaneBytes, boolean renames, boolean durable) {}

    private final String root;
    private final String target;
    private final String path;
    private final int generation;
    private final LaneMac mac;
    private final WriteOptions options;
    private Directory directory;
    private long inode;
    private long verified;
    private int descriptor = -1;
    private long fileNumber;
    private long size;
    private boolean created;
    private int failedFlushes;
    private PosixException flushError;
    private UncommittedBytes outstanding = new UncommittedBytes();
    private final SlotWriter slots;
    /** The last one, and those before it that no append has left yet. */
    private final List<OpeningFile> openings = new ArrayList<>();

    private boolean hasLeftOpenings;

    public LaneWriter(String root, String source, String target, int generation, LaneMac mac, WriteOptions options) {
        this.root = root;
        this.target = target;
        this.generation = generation;
        this.mac = mac;
        this.options = options;
        path = Names.laneDirectory(root, target, source);
        slots = new SlotWriter(generation, options.durable);
    }

    /**
     * Writes whole envelopes that stand one after the other in a block.
     *
     * @param ends where each of them ends in the block
     * @throws StorageException naming how many of them are in the lane for good: the counters of the others, and only
     *     those, are used again
     */
    public void append(Block envelopes, List<Integer> ends) {
        verifyIfDue();
        leaveOpenings();
        if (options.renames) {
            publish(envelopes, ends.get(ends.size() - 1), ends.size());
        } else {
            appendHere(envelopes, ends);
        }
    }

    /** The file that the receiver needs before the envelopes of the next append; null on a link of no identities. */
    public void opening(OpeningFile opening) {
        if (opening == null) {
            openings.clear();
        } else if (openings.isEmpty() || openings.get(openings.size() - 1) != opening) {
            openings.add(opening);
            hasLeftOpenings = false;
        }
    }

    /** On disk before the envelopes that they open, where these are to be. */
    private void leaveOpenings() {
        if (hasLeftOpenings || openings.isEmpty()) {
            return;
        }
        try {
            for (OpeningFile opening : openings) {
                Posix.close(directory.replace(opening.name(), opening.bytes(), options.durable));
                created = true;
            }
        } catch (PosixException error) {
            throw failure(error, 0);
        }
        openings.subList(0, openings.size() - 1).clear();
        hasLeftOpenings = true;
    }

    private void verifyIfDue() {
        if (directory == null || System.nanoTime() - verified > VERIFY_NANOS) {
            verify();
        }
    }

    private void appendHere(Block envelopes, List<Integer> ends) {
        if (!slots.isEmpty()) {
            trimSlots(ends.get(ends.size() - 1));
        }
        if (descriptor < 0) {
            openFile();
        }
        write(envelopes, ends);
        if (size >= Limits.SEGMENT_BYTES) {
            leaveFile();
        }
    }

    private void write(Block envelopes, List<Integer> ends) {
        int total = ends.get(ends.size() - 1);
        int written = 0;
        try {
            while (written < total) {
                written += Posix.write(descriptor, envelopes, written, total - written);
            }
            grown(written);
        } catch (PosixException error) {
            grown(written);
            if (size > 0) {
                // Never truncated: the reader may have read torn bytes already. A successor also lets the receiver
                // remove this file, which may be what frees the space that is missing.
                leaveFile();
            }
            int done = written;
            throw failure(error, (int) ends.stream().filter(end -> end <= done).count());
        }
    }

    /** Free ones keep no window from what is about to be written. */
    private void trimSlots(int bytes) {
        long room = options.maxLaneBytes - outstanding.bytes() - slots.bytes() - bytes;
        if (slots.freeBytes() > room) {
            slots.trim(directory, room);
        }
    }

    private void grown(int written) {
        size += written;
        outstanding.add(new LaneFile(generation, fileNumber), written);
    }

    /** Creates the next free file of this generation. */
    private void openFile() {
        while (descriptor < 0) {
            try {
                descriptor = directory.create(Names.laneFileName(generation, fileNumber + 1), APPEND);
            } catch (PosixException error) {
                if (!error.is(PosixException.EEXIST)) {
                    close();
                    throw failure(error, 0);
                }
            }
            fileNumber++;
        }
        size = 0;
        grown(0);
        created = true;
    }

    /** Makes one complete file appear at once. */
    private void publish(Block batch, int length, int envelopes) {
        String name = Names.laneFileName(generation, fileNumber + 1);
        try {
            Posix.close(directory.replace(name, batch.copy(0, length), options.durable));
        } catch (UnclearRenameException error) {
            fileNumber++; // neither its number nor the counters may be used again: it may be there
            throw failure(error, envelopes);
        } catch (PosixException error) {
            throw failure(error, 0);
        }
        fileNumber++;
        created = true;
        outstanding.add(new LaneFile(generation, fileNumber), length);
    }

    // --- payloads in slots ---

    /**
     * A slot for a payload of so many bytes, to be closed by the caller; null if all are in use. StorageException where
     * there is no space for it: nothing was sent.
     */
    public SlotWriter.Slot slot(SlotPieces pieces) {
        verifyIfDue();
        if (slots.isInUse()) {
            lookAtCursor();
        }
        long head = Header.OVERHEAD + Limits.SLOT_HEAD_BYTES;
        try {
            return slots.take(
                    directory, pieces.slotBytes(), options.maxLaneBytes - outstanding.bytes() - slots.bytes() - head);
        } catch (PosixException error) {
            throw failure(error, 0);
        } finally {
            created |= slots.hasMade();
        }
    }

    /** Appends the envelope of a payload, which is then written into the slot; fails like the others. */
    public void append(SlotWriter.Slot slot, long sequence, Block envelope, int length) {
        leaveOpenings();
        appendHere(envelope, List.of(length));
        slots.use(slot, sequence, new Position(new LaneFile(generation, fileNumber), size - length));
    }

    /** Writes the payload whose envelope was appended before; StorageException: it is lost. */
    public void write(SlotWriter.Slot slot, SlotPieces pieces, byte[] payload) {
        try {
            slots.write(slot, pieces, payload);
        } catch (PosixException error) {
            throw failure(error, 0);
        }
    }

    /** Removes the slots that are free and were not used for so long; whether there were any. */
    public boolean releaseSlots(long nanos) {
        if (slots.isEmpty()) {
            return false;
        }
        long before = slots.bytes() + slots.freeBytes();
        try (Directory lane = Directory.open(path)) {
            Cursor cursor = lane.status().inode() == inode ? newestCursor(lane) : null;
            if (cursor != null) {
                slots.commit(cursor);
                slots.release(lane, nanos);
            }
        } catch (PosixException another) {
            // there is nothing to release any more
        }
        return slots.bytes() + slots.freeBytes() < before;
    }

    /** Whether space or quota was missing: removing files may help. */
    public static boolean lacksSpace(StorageException failure) {
        return failure.getCause() instanceof PosixException error
                && (error.is(PosixException.ENOSPC) || error.is(PosixException.EDQUOT));
    }

    // --- room ---

    /**
     * Whether so many more bytes may be written; the receiver's cursor is read only when not. Without room the
     * next file is begun before anybody waits: what was torn in the last one is free only behind it.
     */
    public boolean hasRoom(long bytes) {
        if (directory == null) {
            verify();
        }
        if (fits(bytes)) {
            return true;
        }
        verify();
        lookAtCursor();
        if (outstanding.bytes() + slots.bytes() == 0 || fits(bytes)) {
            return true;
        }
        if (descriptor < 0 && !options.renames && outstanding.laneFiles() < Limits.MAX_LANE_SEGMENTS) {
            openFile();
        }
        return false;
    }

    private boolean fits(long bytes) {
        return outstanding.bytes() + slots.bytes() + bytes <= options.maxLaneBytes
                && outstanding.laneFiles() < Limits.MAX_LANE_SEGMENTS;
    }

    private void lookAtCursor() {
        Cursor cursor = newestCursor(directory);
        if (cursor != null) {
            outstanding.commit(cursor.file(), cursor.offset());
            slots.commit(cursor);
        }
    }

    /** Null as well where the system fails: who has no room looks again. */
    private Cursor newestCursor(Directory lane) {
        try {
            return Listing.newestCursor(lane, mac);
        } catch (PosixException unseen) {
            return null;
        }
    }

    // --- the disk ---

    /** What makes all that was appended survive a power cut. */
    public Flush beginFlush() throws PosixException {
        int laneFile = Posix.duplicate(descriptor);
        List<Integer> files = new ArrayList<>(slots.takeUnflushed()); // first: an envelope names what is there
        if (laneFile >= 0) {
            files.add(laneFile);
        }
        Flush flush = new Flush(files, created ? path : null);
        created = false;
        return flush;
    }

    /** A flush failed: what was appended before it may be lost in a power cut. */
    public void flushFailed(PosixException error) {
        created = true;
        failedFlushes++;
        flushError = error;
    }

    /** Flushes that failed so far. */
    public int failedFlushes() {
        return failedFlushes;
    }

    /** What to tell those who appended before a flush that failed. */
    public StorageException flushRefused() {
        String fix = FIXES.getOrDefault(flushError.errno(), "see `speed root doctor`");
        return new StorageException(
                "what was sent to '" + target + "' may not survive a power cut: " + flushError.getMessage() + "; "
                        + fix,
                0);
    }

    // --- the directory ---

    /** Makes or finds the lane directory; starts anew when it is another one than before. */
    private void verify() {
        verified = System.nanoTime();
        try {
            if (directory != null && Posix.status(Posix.AT_FDCWD, path).inode() == inode) {
                return;
            }
        } catch (PosixException gone) {
            // the receiver put it aside
        }
        close();
        try {
            openDirectory();
        } catch (PosixException error) {
            throw failure(error, 0);
        }
    }

    private void openDirectory() throws PosixException {
        Directory.makeIfAbsent(path);
        created = true; // that it is there may be the answer to a request that was repeated
        directory = Directory.open(path);
        try {
            readDirectory();
        } catch (PosixException error) {
            directory.close();
            directory = null;
            throw error;
        }
    }

    private void readDirectory() throws PosixException {
        FileStatus status = directory.status();
        if (status.uid() != Posix.uid() && !status.isShared()) {
            throw new PosixException(PosixException.EACCES, "the lane directory belongs to user " + status.uid());
        }
        if (status.inode() != inode) {
            slots.forget();
        }
        inode = status.inode();
        outstanding = new UncommittedBytes();
        for (LaneFile found : Listing.of(directory).laneFiles()) {
            FileStatus file = statusOf(found);
            if (file != null && file.isRegular()) {
                outstanding.add(found, file.size());
            }
            if (found.generation() == generation) {
                fileNumber = Math.max(fileNumber, found.number());
            }
        }
    }

    /** Null when it was consumed and removed meanwhile. */
    private FileStatus statusOf(LaneFile found) throws PosixException {
        try {
            return directory.status(Names.laneFileName(found.generation(), found.number()));
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return null;
            }
            throw error;
        }
    }

    /** Ends the current file; the next append opens another. Who appended to it is told if its flush fails. */
    private void leaveFile() {
        int left = descriptor;
        descriptor = -1;
        try {
            if (options.durable) {
                Posix.syncData(left);
            }
        } catch (PosixException error) {
            flushFailed(error);
        } finally {
            Posix.close(left);
        }
    }

    /** Releases the descriptors; the files stay for the receiver. The next append begins a new file. */
    public void close() {
        restSlots();
        if (descriptor >= 0) {
            leaveFile();
        }
        if (directory != null) {
            directory.close();
            directory = null;
        }
        hasLeftOpenings = false;
    }

    private void restSlots() {
        try {
            slots.rest();
        } catch (PosixException error) {
            flushFailed(error);
        }
    }

    private StorageException failure(PosixException error, int whole) {
        if (error.is(PosixException.ENOENT)) {
            Root.checkRegistry(root, whole);
        }
        String fix = FIXES.getOrDefault(error.errno(), "see `speed root doctor`");
        StorageException failure = new StorageException(
                "cannot write into the inbox of '" + target + "': " + error.getMessage() + "; " + fix, whole);
        failure.initCause(error);
        return failure;
    }

    /** Bytes written and not committed, per file, in lane order. Not thread-safe. */
    static final class UncommittedBytes {
        private record Share(long size, long freed) {}

        private final TreeMap<LaneFile, Share> laneFiles = new TreeMap<>();
        private long bytes;

        long bytes() {
            return bytes;
        }

        /** How many files they lie in; an empty one counts. */
        int laneFiles() {
            return laneFiles.size();
        }

        /** Counts more bytes of a file. */
        void add(LaneFile file, long size) {
            laneFiles.merge(file, new Share(size, 0), (old, more) -> new Share(old.size + more.size, old.freed));
            bytes += size;
        }

        /** Everything before this position is committed; a position never moves what it freed back. */
        void commit(LaneFile place, long offset) {
            Map<LaneFile, Share> passed = laneFiles.headMap(place, false);
            passed.values().forEach(share -> bytes -= share.size - share.freed);
            passed.clear();
            Share share = laneFiles.get(place);
            if (share != null && offset > share.freed) {
                long freed = Math.min(offset, share.size);
                bytes -= freed - share.freed;
                laneFiles.put(place, new Share(share.size, freed));
            }
        }
    }
}
