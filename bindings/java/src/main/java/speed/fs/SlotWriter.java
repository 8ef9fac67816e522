package speed.fs;

import java.util.ArrayList;
import java.util.List;
import speed.core.Position;
import speed.wire.Block;
import speed.wire.Cursor;
import speed.wire.Limits;
import speed.wire.Names;
import speed.wire.SlotId;
import speed.wire.SlotPieces;

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
        /** Of the payload that lies in it and is not finished; 0: it is free. */
        private int payloadBytes;
        private long sequence;
        private Position start;
        private long takenAt;

        private Slot(SlotId id) {
            this.id = id;
        }

        public int number() {
            return id.number();
        }

        private boolean isFree() {
            return payloadBytes == 0;
        }

        /** Whether a cursor says that its payload is finished. */
        private boolean isPassed(Cursor cursor) {
            return start.compareTo(new Position(cursor.segment(), cursor.offset())) < 0
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
    private long bytes;
    /** Null at rest. */
    private Block sealed;

    SlotWriter(int generation, boolean isDurable) {
        this.generation = generation;
        this.isDurable = isDurable;
    }

    /** Bytes of the payloads that are not finished. */
    long bytes() {
        return bytes;
    }

    boolean isEmpty() {
        return slots.isEmpty();
    }

    boolean hasFree() {
        return slots.stream().anyMatch(Slot::isFree);
    }

    /** An open slot that is free, with room for so many bytes; null if there is none. */
    Slot take(Directory lane, long slotBytes) throws PosixException {
        Slot slot = openFree(lane);
        if (slot == null) {
            slot = make(lane);
        }
        if (slot != null) {
            reserve(slot, slotBytes);
        }
        return slot;
    }

    /** One that is not there any more, or was replaced, is forgotten. */
    private Slot openFree(Directory lane) throws PosixException {
        for (Slot slot : List.copyOf(slots)) {
            try {
                if (slot.isFree()) {
                    slot.file = lane.openRegular(Names.slotName(slot.id), Posix.O_WRONLY);
                    return slot;
                }
            } catch (PosixException error) {
                if (!error.saysGone()) {
                    throw error;
                }
                slots.remove(slot);
            }
        }
        return null;
    }

    private Slot make(Directory lane) throws PosixException {
        for (int number = 1; number <= Limits.MAX_SLOTS; number++) {
            Slot slot = new Slot(new SlotId(generation, number));
            if (slots.stream().noneMatch(other -> other.id.equals(slot.id)) && isMade(lane, slot)) {
                slots.add(slot);
                hasMade = true;
                return slot;
            }
        }
        return null;
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
    private void reserve(Slot slot, long slotBytes) throws PosixException {
        try {
            long size = Posix.status(slot.file).size();
            if (size < slotBytes) {
                Posix.reserve(slot.file, size, slotBytes - size);
            }
            slot.takenAt = System.nanoTime();
            sealed = sealed == null ? new Block(SlotPieces.SEALED_BYTES) : sealed;
        } catch (PosixException error) {
            slot.close();
            throw error;
        }
    }

    /** The envelope of a payload of so many bytes was appended, and names this slot. */
    void use(Slot slot, long sequence, Position start, int payloadBytes) {
        slot.sequence = sequence;
        slot.start = start;
        slot.payloadBytes = payloadBytes;
        bytes += payloadBytes;
    }

    /** Writes a payload; where that fails the slot is cut, so that its reader waits for nothing. */
    void write(Slot slot, SlotPieces pieces, byte[] payload) throws PosixException {
        try {
            for (int index = 0; index < pieces.count(); index++) {
                Posix.writeAll(slot.file, sealed, pieces.seal(index, payload, sealed), pieces.offset(index));
            }
        } catch (PosixException error) {
            Posix.cut(slot.file);
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
            if (!slot.isFree() && slot.isPassed(cursor)) {
                bytes -= slot.payloadBytes;
                slot.payloadBytes = 0;
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
        bytes = 0;
    }

    /** Holds nothing open, and no memory; flushes what is to be flushed. */
    void rest() throws PosixException {
        sealed = null;
        new Flush(takeUnflushed(), null).run();
    }
}
