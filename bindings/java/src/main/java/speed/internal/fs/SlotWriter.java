package speed.internal.fs;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import speed.internal.core.LaneProgress.Position;
import speed.internal.core.SlotChoice;
import speed.internal.wire.Block;
import speed.internal.wire.Cursor;
import speed.internal.wire.Names;
import speed.internal.wire.Names.SlotId;
import speed.internal.wire.SlotPieces;

/**
 * The sender's end of the slots of a lane: which are free, and what is written into them. Not thread-safe: the link's
 * lock guards it.
 */
public final class SlotWriter {
    /** Smaller payloads lie in the lane itself. */
    public static final int LEAST_BYTES = 128 << 10;

    /** One slot of this generation; it is open from when it is taken until it is closed. */
    public static final class Slot implements AutoCloseable {
        private final SlotId id;
        private int file = -1;
        private long fileBytes;
        /** Whether a payload lies in it that is not finished. */
        private boolean isUsed;

        private long sequence;
        private Position start;
        private long takenAt;

        private Slot(SlotId id) {
            this.id = id;
        }

        public int number() {
            return id.number();
        }

        /** Whether nobody needs it, nor is about to. */
        private boolean isFree() {
            return !isUsed && file < 0;
        }

        /** Whether a cursor says that its payload is finished. */
        private boolean isPassed(Cursor cursor) {
            return start.compareTo(new Position(cursor.file(), cursor.offset())) < 0
                    && cursor.unfinished().stream().noneMatch(entry -> entry.sequence() == sequence);
        }

        @Override
        public void close() {
            Posix.close(file);
            file = -1;
        }
    }

    private final int generation;
    private final boolean isDurable;
    private final List<Slot> slots = new ArrayList<>();
    /** What was written and not flushed, where it is to be; only then is a slot open between two payloads. */
    private final List<Integer> unflushed = new ArrayList<>();

    private boolean hasMade;
    /** Null at rest. */
    private Block sealed;

    SlotWriter(int generation, boolean isDurable) {
        this.generation = generation;
        this.isDurable = isDurable;
    }

    /** Bytes of the files whose payloads are not finished. */
    long bytes() {
        return slots.stream()
                .filter(slot -> slot.isUsed)
                .mapToLong(slot -> slot.fileBytes)
                .sum();
    }

    /** Bytes of the files that are free. */
    long freeBytes() {
        return free().values().stream().mapToLong(Long::longValue).sum();
    }

    boolean isEmpty() {
        return slots.isEmpty();
    }

    boolean isInUse() {
        return slots.stream().anyMatch(slot -> slot.isUsed);
    }

    private Map<Integer, Long> free() {
        return slots.stream().filter(Slot::isFree).collect(Collectors.toMap(Slot::number, slot -> slot.fileBytes));
    }

    /**
     * An open slot that is free, with space for so many bytes; null if there is none.
     *
     * @param room what the window leaves for all free slots together with this one
     */
    Slot take(Directory lane, long slotBytes, long room) throws PosixException {
        Set<Integer> foreign = new HashSet<>();
        while (true) {
            Set<Integer> used = new HashSet<>(foreign);
            slots.stream().filter(slot -> !slot.isFree()).forEach(slot -> used.add(slot.number()));
            SlotChoice choice = SlotChoice.of(free(), used, slotBytes, room);
            if (choice == null) {
                return null;
            }
            choice.removed().forEach(number -> remove(lane, known(number)));
            Slot slot = open(lane, choice.number());
            if (slot != null) {
                resize(slot, choice.fileBytes());
                return slot;
            }
            if (known(choice.number()) == null) {
                foreign.add(choice.number());
            }
        }
    }

    private Slot known(int number) {
        return slots.stream().filter(slot -> slot.number() == number).findAny().orElse(null);
    }

    private void remove(Directory lane, Slot slot) {
        lane.removeQuietly(Names.slotName(slot.id));
        slots.remove(slot);
    }

    /** Null if it is to be chosen anew: a new one is another's, or what was in its place was replaced, and is forgotten. */
    private Slot open(Directory lane, int number) throws PosixException {
        Slot slot = known(number);
        if (slot == null) {
            return make(lane, number);
        }
        try {
            slot.file = lane.openRegular(Names.slotName(slot.id), Posix.O_WRONLY);
            return slot;
        } catch (PosixException error) {
            if (!error.saysGone()) {
                throw error;
            }
            slots.remove(slot);
            return make(lane, number);
        }
    }

    private Slot make(Directory lane, int number) throws PosixException {
        Slot slot = new Slot(new SlotId(generation, number));
        if (!isMade(lane, slot)) {
            return null;
        }
        slots.add(slot);
        hasMade = true;
        return slot;
    }

    private static boolean isMade(Directory lane, Slot slot) throws PosixException {
        try {
            slot.file = lane.create(Names.slotName(slot.id), 0);
            return true;
        } catch (PosixException error) {
            if (error.is(PosixException.EEXIST)) {
                return false; // not made by this link: left alone
            }
            throw error;
        }
    }

    /** A full disk is found out before anything is sent. */
    private void resize(Slot slot, long fileBytes) throws PosixException {
        try {
            long size = Posix.status(slot.file).size();
            if (size < fileBytes) {
                grow(slot, size, fileBytes);
            } else if (size > fileBytes) {
                Posix.cut(slot.file, fileBytes);
            }
            slot.fileBytes = fileBytes;
            slot.takenAt = System.nanoTime();
            sealed = sealed == null ? new Block(SlotPieces.SEALED_BYTES) : sealed;
        } catch (PosixException error) {
            slot.close();
            throw error;
        }
    }

    private static void grow(Slot slot, long size, long fileBytes) throws PosixException {
        try {
            Posix.reserve(slot.file, size, fileBytes - size);
        } catch (PosixException error) {
            Posix.cut(slot.file, size);
            throw error;
        }
    }

    /** The envelope of a payload was appended, and names this slot. */
    void use(Slot slot, long sequence, Position start) {
        slot.sequence = sequence;
        slot.start = start;
        slot.isUsed = true;
    }

    /** Writes a payload; where that fails the slot is cut, so that its reader waits for nothing. */
    void write(Slot slot, SlotPieces pieces, byte[] payload) throws PosixException {
        try {
            for (int index = 0; index < pieces.count(); index++) {
                Posix.writeAll(slot.file, sealed, pieces.seal(index, payload, sealed), pieces.offset(index));
            }
        } catch (PosixException error) {
            Posix.cut(slot.file, 0);
            slot.fileBytes = 0;
            throw error;
        }
        if (isDurable) {
            unflushed.add(slot.file);
            slot.file = -1;
        }
    }

    /** Frees what a cursor says is finished. */
    void commit(Cursor cursor) {
        for (Slot slot : slots) {
            if (slot.isUsed && slot.isPassed(cursor)) {
                slot.isUsed = false;
            }
        }
    }

    /** Removes those that are free and were not taken for so long. */
    void release(Directory lane, long nanos) {
        long now = System.nanoTime();
        slots.removeIf(slot -> {
            boolean isIdle = slot.isFree() && now - slot.takenAt >= nanos;
            if (isIdle) {
                lane.removeQuietly(Names.slotName(slot.id));
            }
            return isIdle;
        });
    }

    /** Removes free ones until they take no more than so many bytes. */
    void trim(Directory lane, long room) {
        SlotChoice.excess(free(), room).forEach(number -> remove(lane, known(number)));
    }

    /** Whether files were made since this was asked last. */
    boolean hasMade() {
        boolean made = hasMade;
        hasMade = false;
        return made;
    }

    /** Descriptors of what is to be flushed; they are the caller's from now on. */
    List<Integer> takeUnflushed() {
        List<Integer> taken = List.copyOf(unflushed);
        unflushed.clear();
        return taken;
    }

    /** The lane is another one: its slots begin anew. */
    void forget() {
        slots.clear();
    }

    /** Holds nothing open, and no memory; flushes what is to be flushed. */
    void rest() throws PosixException {
        sealed = null;
        new Flush(takeUnflushed(), null).run();
    }
}
