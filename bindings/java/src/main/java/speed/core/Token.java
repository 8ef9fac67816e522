package speed.core;

import speed.wire.SegmentId;

/** One dispatched envelope; given back to {@link Progress#finish} once its handler is done. */
public final class Token {
    public final long sequence;
    public final SegmentId segment;
    public final long start;
    long end;
    final long previous;
    boolean finished;

    Token(long sequence, SegmentId segment, long start, long end, long previous) {
        this.sequence = sequence;
        this.segment = segment;
        this.start = start;
        this.end = end;
        this.previous = previous;
    }

    /** Bytes of its envelope. */
    public long bytes() {
        return end - start;
    }
}
