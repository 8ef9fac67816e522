package speed.internal.core;

import speed.internal.wire.SegmentId;

/** One dispatched envelope; given back to {@link Progress#finish} once its handler is done. */
public final class Token {
    public final long sequence;
    public final SegmentId segment;
    public final long start;
    long end;
    /** Bytes of its payload that lie in a slot. */
    long slotted;
    final long previous;
    boolean finished;
    /** Whether it is a request of an idempotent service that was begun. */
    boolean begun;

    Token(long sequence, SegmentId segment, long start, long end, long previous) {
        this.sequence = sequence;
        this.segment = segment;
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
        return new Position(segment, end);
    }

    /** Whether its payload lies in a slot. */
    public boolean isSlotted() {
        return slotted > 0;
    }
}
