package speed.internal.fs;

import java.util.Map;
import java.util.TreeMap;
import speed.internal.wire.SegmentId;

/** Bytes written and not committed, per segment, in lane order. Not thread-safe. */
final class Outstanding {
    private record Share(long size, long freed) {}

    private final TreeMap<SegmentId, Share> segments = new TreeMap<>();
    private long bytes;

    long bytes() {
        return bytes;
    }

    /** How many segments they lie in; an empty one counts. */
    int segments() {
        return segments.size();
    }

    /** Counts more bytes of a segment. */
    void add(SegmentId segment, long size) {
        segments.merge(segment, new Share(size, 0), (old, more) -> new Share(old.size + more.size, old.freed));
        bytes += size;
    }

    /** Everything before this position is committed; a position never moves what it freed back. */
    void commit(SegmentId place, long offset) {
        Map<SegmentId, Share> passed = segments.headMap(place, false);
        passed.values().forEach(share -> bytes -= share.size - share.freed);
        passed.clear();
        Share share = segments.get(place);
        if (share != null && offset > share.freed) {
            long freed = Math.min(offset, share.size);
            bytes -= freed - share.freed;
            segments.put(place, new Share(share.size, freed));
        }
    }
}
