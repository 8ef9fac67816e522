package speed.internal.engine.link;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import speed.errors.StorageException;
import speed.internal.fs.LaneWriter;
import speed.internal.fs.SlotWriter;
import speed.internal.wire.Block;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.Limits;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.SlotPieces;
import speed.internal.wire.SlotPieces.SlotHead;

/**
 * What goes out on a link, counted, sealed and appended in one go, so that the order in the lane is the order of the
 * sequence; large payloads go into slots. Not thread-safe: the link's lock guards it.
 */
public final class Envelopes {
    private static final int KEPT_BYTES = 4 << 20;
    private static final int USUAL_BYTES = 64 << 10;

    private final int generation;
    private final LinkSealer sealer;
    private final LaneWriter writer;
    private final Consumer<byte[]> random;
    private final Runnable ring;
    private final BooleanSupplier findSpace;
    private long counter;
    /** Null at rest. */
    private Block kept;

    private volatile boolean usesSlots;

    /**
     * {@code random} fills an array from a cryptographic generator; {@code findSpace} removes files that the node can do
     * without, and says whether there were any.
     */
    public Envelopes(
            int generation,
            LinkSealer sealer,
            LaneWriter writer,
            Consumer<byte[]> random,
            Runnable ring,
            BooleanSupplier findSpace) {
        this.generation = generation;
        this.sealer = sealer;
        this.writer = writer;
        this.random = random;
        this.ring = ring;
        this.findSpace = findSpace;
    }

    /** That of the last envelope. */
    public long counter() {
        return counter;
    }

    /** Whether the receiver takes slots. */
    public void useSlots(boolean uses) {
        usesSlots = uses;
    }

    /** How much room a load takes. Any thread may ask. */
    long bytes(Load load) {
        long total = 0;
        for (byte[] payload : load.payloads()) {
            total += Header.OVERHEAD + payload.length + (isLarge(load, payload) ? Limits.SLOT_HEAD_BYTES : 0);
        }
        return total;
    }

    /** Whether a payload is to lie in a slot, if one is free. */
    private boolean isLarge(Load load, byte[] payload) {
        return payload.length >= SlotWriter.LEAST_BYTES
                && usesSlots
                && load.type().mayCarry(EnvelopeType.SLOTTED);
    }

    /** Appends all of a load; returns the last sequence. A StorageException tells how many are in the lane for good. */
    public long append(Load load, LongConsumer track) {
        long before = counter;
        int sent = 0;
        try {
            while (sent < load.payloads().size()) {
                sent += appendNext(load, sent, track);
            }
        } catch (StorageException error) {
            if (counter != before) {
                ring.run();
            }
            throw sent == 0 ? error : new StorageException(error.getMessage(), sent + error.envelopesWritten());
        }
        return Sequence.of(generation, counter);
    }

    /** Sends one payload in a slot, or some in the lane itself, from the given one on; returns how many. */
    private int appendNext(Load load, int from, LongConsumer track) {
        List<byte[]> payloads = load.payloads();
        if (isLarge(load, payloads.get(from)) && sendsInSlot(load, payloads.get(from), track)) {
            return 1;
        }
        int end = from + 1;
        while (end < payloads.size() && !isLarge(load, payloads.get(end))) {
            end++;
        }
        appendRun(load, payloads.subList(from, end), track);
        return end - from;
    }

    /** Sends a payload in a slot, if one is free: the receiver opens the first pieces while the others are sealed. */
    private boolean sendsInSlot(Load load, byte[] payload, LongConsumer track) {
        byte[] key = new byte[Limits.KEY_BYTES];
        random.accept(key);
        SlotPieces pieces = new SlotPieces(key, payload.length);
        try (SlotWriter.Slot slot = slot(pieces)) {
            if (slot == null) {
                return false;
            }
            appendHead(load, new SlotHead(slot.number(), payload.length, key), slot, track);
            ring.run();
            writer.write(slot, pieces, payload);
            return true;
        }
    }

    /** What finds no space is tried once more, if there are files that can go. */
    private SlotWriter.Slot slot(SlotPieces pieces) {
        try {
            return writer.slot(pieces);
        } catch (StorageException error) {
            if (!LaneWriter.lacksSpace(error) || !findSpace.getAsBoolean()) {
                throw error;
            }
            return writer.slot(pieces);
        }
    }

    private void appendHead(Load load, SlotHead head, SlotWriter.Slot slot, LongConsumer track) {
        Block block = room(Header.OVERHEAD + Limits.SLOT_HEAD_BYTES);
        int flags = load.flags() | EnvelopeType.SLOTTED;
        int bytes = sealer.seal(block, 0, load.type(), flags, counter + 1, System.currentTimeMillis(), head.encode());
        writer.opening(sealer.opening());
        long sequence = Sequence.of(generation, counter + 1);
        track.accept(sequence);
        try {
            writer.append(slot, sequence, block, bytes);
        } catch (StorageException error) {
            if (!LaneWriter.lacksSpace(error) || !findSpace.getAsBoolean()) {
                throw error;
            }
            writer.append(slot, sequence, block, bytes); // the same bytes: what was written of them is torn
        }
        counter++;
    }

    /** Likewise. */
    private void appendRun(Load load, List<byte[]> payloads, LongConsumer track) {
        int written;
        try {
            appendOnce(load, payloads, track);
            return;
        } catch (StorageException error) {
            written = error.envelopesWritten();
            if (!LaneWriter.lacksSpace(error) || !findSpace.getAsBoolean()) {
                throw error;
            }
        }
        try {
            appendOnce(load, payloads.subList(written, payloads.size()), track);
        } catch (StorageException error) {
            throw new StorageException(error.getMessage(), written + error.envelopesWritten());
        }
    }

    private void appendOnce(Load load, List<byte[]> payloads, LongConsumer track) {
        Block block = room(payloads.stream()
                .mapToInt(payload -> Header.OVERHEAD + payload.length)
                .sum());
        long now = System.currentTimeMillis();
        long next = counter;
        List<Integer> ends = new ArrayList<>(payloads.size());
        int at = 0;
        for (byte[] payload : payloads) {
            at += sealer.seal(block, at, load.type(), load.flags(), ++next, now, payload);
            writer.opening(sealer.opening());
            ends.add(at);
        }
        track.accept(Sequence.of(generation, next));
        try {
            writer.append(block, ends);
        } catch (StorageException error) {
            counter += error.envelopesWritten();
            throw error;
        }
        counter = next;
    }

    /** Memory for the envelopes, used again; that of a rare giant is given back. */
    private Block room(int bytes) {
        if (bytes > KEPT_BYTES) {
            return new Block(bytes);
        }
        if (kept == null || bytes > kept.size) {
            kept = new Block(Math.max(bytes, USUAL_BYTES));
        }
        return kept;
    }

    /** Holds no memory until the next envelope; the sequence goes on with that. */
    void rest() {
        kept = null;
    }

    /** One type, flags, and payloads that leave together; the deadline bounds the wait for room. */
    public record Load(EnvelopeType type, int flags, List<byte[]> payloads, long deadlineNanos) {
        private static final long URGENT = Long.MIN_VALUE;

        public static Load of(EnvelopeType type, int flags, byte[] payload, long deadlineNanos) {
            return new Load(type, flags, List.of(payload), deadlineNanos);
        }

        /** A load that never waits for room. */
        public static Load urgent(EnvelopeType type, int flags, List<byte[]> payloads) {
            return new Load(type, flags, payloads, URGENT);
        }

        boolean isCall() {
            return type == EnvelopeType.SPC_REQUEST || type == EnvelopeType.SPC_RESPONSE;
        }

        boolean isUrgent() {
            return deadlineNanos == URGENT;
        }
    }
}
