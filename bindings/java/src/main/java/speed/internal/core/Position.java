package speed.internal.core;

import speed.internal.wire.SegmentId;

/** A place in a lane; positions order as the bytes do. */
public record Position(SegmentId segment, long offset) implements Comparable<Position> {
    public static final Position START = new Position(SegmentId.NONE, 0);

    @Override
    public int compareTo(Position other) {
        int bySegment = segment.compareTo(other.segment);
        return bySegment != 0 ? bySegment : Long.compare(offset, other.offset);
    }
}
