package speed.internal.segment;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToLongFunction;
import speed.errors.WireException;
import speed.options.SegmentLimits;

/**
 * Which payloads are given up for a new segment: those of its own sender where that one's limit is reached, else
 * of the sender who holds most. So nobody who holds less than an equal share loses anything through others.
 */
final class Room {
    /** What there may be too much of: bounds, how much is added, how much a payload has of it. */
    private record Measure(long ofSender, long inTotal, long added, ToLongFunction<Reconstruction> held) {}

    private final SegmentLimits limits;

    Room(SegmentLimits limits) {
        this.limits = limits;
    }

    /** The payloads to be given up so that {@code size} bytes of {@code key} fit; SEGMENT_LIMIT if they cannot. */
    List<PayloadKey> make(Collection<Reconstruction> gathering, PayloadKey key, Reconstruction own, int size) {
        long alone = size + (own == null ? 0 : own.buffered());
        if (alone > Math.min(limits.senderBufferedBytes(), limits.bufferedBytes())) {
            throw new WireException("SEGMENT_LIMIT", alone + " bytes of one payload find no room");
        }
        List<Measure> measures = List.of(
                new Measure(limits.senderReconstructions(), limits.reconstructions(), own == null ? 1 : 0, any -> 1),
                new Measure(limits.senderBufferedBytes(), limits.bufferedBytes(), size, Reconstruction::buffered));
        List<Reconstruction> left = new ArrayList<>(gathering);
        List<PayloadKey> evicted = new ArrayList<>();
        for (Measure measure : measures) {
            for (String sender = crowded(measure, left, key); sender != null; sender = crowded(measure, left, key)) {
                Reconstruction victim = longestWaiting(left, sender, key);
                left.remove(victim);
                evicted.add(victim.key());
            }
        }
        return evicted;
    }

    /** The sender that is to give something up; null when there is room. */
    private static String crowded(Measure measure, List<Reconstruction> left, PayloadKey key) {
        if (measure.added == 0) {
            return null;
        }
        Map<String, Long> held = new LinkedHashMap<>();
        held.put(key.sender(), measure.added);
        long total = measure.added;
        for (Reconstruction one : left) {
            long part = measure.held.applyAsLong(one);
            held.merge(one.key().sender(), part, Long::sum);
            total += part;
        }
        if (held.get(key.sender()) > measure.ofSender) {
            return key.sender();
        }
        return total > measure.inTotal ? largest(held, key.sender()) : null;
    }

    /** Who holds most; of equals the one whose segment it is, else the one whose payload has waited longest. */
    private static String largest(Map<String, Long> held, String own) {
        String largest = own;
        for (Map.Entry<String, Long> one : held.entrySet()) {
            if (one.getValue() > held.get(largest)) {
                largest = one.getKey();
            }
        }
        return largest;
    }

    /** The payload of a sender, other than {@code key}, that got its last segment first. */
    private static Reconstruction longestWaiting(List<Reconstruction> left, String sender, PayloadKey key) {
        return left.stream().filter(one -> one.key().sender().equals(sender) && !one.key().equals(key)).findFirst()
                .orElseThrow(() -> new WireException("SEGMENT_LIMIT", "the segment finds no room"));
    }
}
