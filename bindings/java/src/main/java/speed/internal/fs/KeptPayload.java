package speed.internal.fs;

import java.util.List;
import speed.internal.segment.PayloadKey;
import speed.internal.segment.Reconstruction;

/** A payload that is not complete, as the store has it; {@code begunMs} is Unix time. */
public record KeptPayload(
        PayloadKey key, int dataCount, int parityCount, long begunMs, List<SegmentPlace> places) {
    /** What is held of it, on another clock that shows {@code passedMs} more than Unix time. */
    public Reconstruction reconstruction(long passedMs) {
        Reconstruction one = new Reconstruction(key, dataCount, parityCount, begunMs + passedMs);
        places.forEach(place -> one.hold(place.slot(), place.size(), place.atMs() + passedMs));
        return one;
    }
}
