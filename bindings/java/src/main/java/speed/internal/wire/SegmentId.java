package speed.internal.wire;

/**
 * Which file of a lane: segments order as the lane does.
 *
 * @param generation of the sender, 0 before the first segment
 * @param segment number within the generation
 */
public record SegmentId(int generation, long segment) implements Comparable<SegmentId> {
    public static final SegmentId NONE = new SegmentId(0, 0);

    @Override
    public int compareTo(SegmentId other) {
        int byGeneration = Integer.compare(generation, other.generation);
        return byGeneration != 0 ? byGeneration : Long.compare(segment, other.segment);
    }

    public boolean isBefore(SegmentId other) {
        return compareTo(other) < 0;
    }
}
