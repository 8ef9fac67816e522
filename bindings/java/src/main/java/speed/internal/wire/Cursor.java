package speed.internal.wire;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import speed.errors.WireException;
import speed.internal.wire.Names.LaneFile;

/**
 * A receiver's committed position in one lane: every envelope before it was dispatched, and all of
 * those are finished but the listed ones. Sealed: no earlier generation begins more than this receiver read.
 *
 * <pre>
 *  0 "SPDC"  4 version  5 flags  6 count  8 receiver generation  12 zero  16 sender generation  20 segment
 * 24 offset  32 last sequence  40 zero  64 count × (sequence 8, segment 4, generation 4, offset 8)  mac(16)
 * </pre>
 */
public record Cursor(
        int receiverGeneration,
        LaneFile file,
        long offset,
        long lastSequence,
        List<Unfinished> unfinished,
        boolean clean,
        boolean sealed) {
    private static final int FIXED_BYTES = 64;
    private static final int UNFINISHED_BYTES = 24;
    private static final int MAGIC = 0x53504443;
    private static final int CLEAN = 1;
    private static final int SEALED = 2;
    private static final long BEGUN = 1L << 63;
    public static final int MAX_BYTES = FIXED_BYTES + Limits.MAX_UNFINISHED * UNFINISHED_BYTES + LaneMac.BYTES;

    /**
     * One dispatched but unfinished envelope: its sequence and where it begins.
     *
     * @param begun whether it is a request of an idempotent service, which runs or ran
     */
    public record Unfinished(long sequence, LaneFile file, long offset, boolean begun) {}

    /** The same without the flag of a clean end. */
    public Cursor unclean() {
        return new Cursor(receiverGeneration, file, offset, lastSequence, unfinished, false, sealed);
    }

    /** The same with the mark that its predecessors are sealed, or without. */
    public Cursor sealed(boolean isSealed) {
        return new Cursor(receiverGeneration, file, offset, lastSequence, unfinished, clean, isSealed);
    }

    /** The bytes of a cursor file; their length is 80 + 24 for each unfinished envelope. */
    public byte[] encode(LaneMac mac) {
        ByteBuffer body = ByteBuffer.allocate(FIXED_BYTES + unfinished.size() * UNFINISHED_BYTES + LaneMac.BYTES);
        body.putInt(MAGIC)
                .put((byte) 1)
                .put((byte) ((clean ? CLEAN : 0) | (sealed ? SEALED : 0)))
                .putShort((short) unfinished.size());
        body.putInt(receiverGeneration).putInt(0).putInt(file.generation()).putInt((int) file.number());
        body.putLong(offset).putLong(lastSequence).position(FIXED_BYTES);
        for (Unfinished one : unfinished) {
            body.putLong(one.sequence).putInt((int) one.file.number()).putInt(one.file.generation());
            body.putLong(one.begun ? one.offset | BEGUN : one.offset);
        }
        return mac.sign(body.array());
    }

    /** The cursor in the data, what follows its end is ignored; BAD_CURSOR otherwise. */
    public static Cursor decode(byte[] data, LaneMac mac) {
        ByteBuffer body = ByteBuffer.wrap(data);
        if (data.length < FIXED_BYTES + LaneMac.BYTES || body.getInt(0) != MAGIC || body.get(4) != 1) {
            throw new WireException("BAD_CURSOR", "no cursor of version 1");
        }
        int count = body.getShort(6) & 0xFFFF;
        int length = FIXED_BYTES + count * UNFINISHED_BYTES + LaneMac.BYTES;
        if (count > Limits.MAX_UNFINISHED || data.length < length || !mac.verifies(data, length)) {
            throw new WireException("BAD_CURSOR", "too short, or the MAC does not fit");
        }
        List<Unfinished> unfinished = new ArrayList<>(count);
        for (int at = FIXED_BYTES; at < length - LaneMac.BYTES; at += UNFINISHED_BYTES) {
            long offset = body.getLong(at + 16);
            unfinished.add(
                    new Unfinished(body.getLong(at), laneFileAt(body, at + 12, at + 8), offset & ~BEGUN, offset < 0));
        }
        return new Cursor(
                body.getInt(8),
                laneFileAt(body, 16, 20),
                body.getLong(24),
                body.getLong(32),
                unfinished,
                (body.get(5) & CLEAN) != 0,
                (body.get(5) & SEALED) != 0);
    }

    private static LaneFile laneFileAt(ByteBuffer body, int generationAt, int laneFileAt) {
        return new LaneFile(body.getInt(generationAt), Integer.toUnsignedLong(body.getInt(laneFileAt)));
    }
}
