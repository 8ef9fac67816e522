package speed.internal.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.internal.wire.Cursor;
import speed.internal.wire.Limits;
import speed.internal.wire.Names.LaneFile;

/**
 * Which envelopes of a lane are dispatched and which finished, as the cursor records it.
 *
 * <p>The position is the end of the last finished envelope, with the unfinished ones before it listed: one slow
 * request neither holds back the lane nor makes a crash repeat what was finished after it. Sequences come in
 * rising order, those of a predecessor's cursor first. Not thread-safe.
 */
public final class LaneProgress {
    /** Unfinished envelopes with which a lane stands still. */
    static final int MAX_IN_HAND = Limits.MAX_IN_HAND;

    private final Map<Long, Token> pending = new LinkedHashMap<>();
    private long pendingBytes;
    private Position tail;
    private long tailSequence;
    private Position donePosition;
    private long doneSequence;

    public LaneProgress(Position start, long lastSequence) {
        tail = donePosition = start;
        tailSequence = doneSequence = lastSequence;
    }

    /** Number of dispatched envelopes that are not finished. */
    public int unfinished() {
        return pending.size();
    }

    /** Whether so much is unfinished, by number or by bytes, that nothing more is read. */
    public boolean isFull() {
        return pending.size() >= MAX_IN_HAND || pendingBytes > Limits.MAX_UNFINISHED_BYTES;
    }

    /** End of everything that was dispatched or skipped. */
    public Position tail() {
        return tail;
    }

    /** Takes over an envelope that the predecessor's cursor lists as unfinished; its end is not known yet. */
    public Token redispatched(Cursor.Unfinished entry) {
        Token token = new Token(entry.sequence(), entry.file(), entry.offset(), entry.offset(), 0);
        token.begun = entry.begun();
        pending.put(token.sequence, token);
        return token;
    }

    /** Notes where an envelope that was taken over ends. */
    public void foundAgain(Token token, long end) {
        token.end = end;
        pendingBytes += token.bytes();
    }

    /** Notes that the envelope at {@code start..end} was handed to its handler. */
    public Token dispatched(long sequence, Position start, long end) {
        Token token = new Token(sequence, start.file(), start.offset(), end, tailSequence);
        pending.put(sequence, token);
        pendingBytes += token.bytes();
        tail = new Position(start.file(), end);
        tailSequence = sequence;
        return token;
    }

    /** Notes that the payload of an envelope lies in a slot. */
    public void slotted(Token token, int payloadBytes) {
        token.slotted = payloadBytes;
        pendingBytes += payloadBytes;
    }

    /** Notes that the bytes before a position hold nothing more to dispatch (damage, duplicates). */
    public void skipTo(Position position) {
        tail = position;
    }

    /** Notes that a request of an idempotent service begins: it is listed, and moves the position as if it were done. */
    public void begin(Token token) {
        token.begun = true;
        pass(token);
    }

    /** Marks one envelope as done; doing it again changes nothing. */
    public void finish(Token token) {
        if (token.finished) {
            return;
        }
        token.finished = true;
        pending.remove(token.sequence);
        pendingBytes -= token.bytes();
        pass(token);
    }

    private void pass(Token token) {
        if (Long.compareUnsigned(token.sequence, doneSequence) > 0) {
            doneSequence = token.sequence;
            donePosition = new Position(token.file, token.end);
        }
    }

    /** The cursor to commit; a 65th unfinished envelope moves the position back to its start. */
    public Cursor cursor(int receiverGeneration, boolean clean) {
        if (pending.isEmpty()) {
            return cursor(receiverGeneration, tail, tailSequence, List.of(), clean);
        }
        List<Cursor.Unfinished> listed = new ArrayList<>();
        for (Token token : pending.values()) {
            if (Long.compareUnsigned(token.sequence, doneSequence) > 0) {
                break;
            }
            if (listed.size() == Limits.MAX_UNFINISHED) {
                Position back = new Position(token.file, token.start);
                return cursor(receiverGeneration, back, token.previous, listed, clean);
            }
            listed.add(new Cursor.Unfinished(token.sequence, token.file, token.start, token.begun));
        }
        return cursor(receiverGeneration, donePosition, doneSequence, listed, clean);
    }

    private static Cursor cursor(
            int generation, Position position, long last, List<Cursor.Unfinished> unfinished, boolean clean) {
        return new Cursor(generation, position.file(), position.offset(), last, unfinished, clean, false);
    }

    /** One dispatched envelope; given back to {@link LaneProgress#finish} once its handler is done. */
    public static final class Token {
        public final long sequence;
        public final LaneFile file;
        public final long start;
        long end;
        /** Bytes of its payload that lie in a slot. */
        long slotted;

        final long previous;
        boolean finished;
        /** Whether it is a request of an idempotent service that was begun. */
        boolean begun;

        Token(long sequence, LaneFile file, long start, long end, long previous) {
            this.sequence = sequence;
            this.file = file;
            this.start = start;
            this.end = end;
            this.previous = previous;
        }

        /** Bytes of its envelope, and of its payload where that lies in a slot. */
        public long bytes() {
            return end - start + slotted;
        }

        /** Where its envelope ends. */
        public Position end() {
            return new Position(file, end);
        }

        /** Whether its payload lies in a slot. */
        public boolean isSlotted() {
            return slotted > 0;
        }
    }

    /** A place in a lane; positions order as the bytes do. */
    public record Position(LaneFile file, long offset) implements Comparable<Position> {
        public static final Position START = new Position(LaneFile.NONE, 0);

        @Override
        public int compareTo(Position other) {
            int byFile = file.compareTo(other.file);
            return byFile != 0 ? byFile : Long.compare(offset, other.offset);
        }
    }
}
