package speed.internal.segment;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToLongFunction;
import speed.errors.WireException;
import speed.internal.segment.Segment.PayloadKey;
import speed.options.SegmentLimits;

/**
 * All payloads of one receiver that are being put together: which segments are kept, of whom and for how long. Pure; times are of one clock, in ms. For one thread at a time.
 */
public final class Reassembly {
    /** What becomes of a segment; refusals are exceptions. */
    public enum Verdict {
        /** It is to be kept. */
        KEPT,
        /** Its slot is held: a duplicate if the bytes are the same, else SEGMENT_CONFLICT. */
        HELD,
        /** It is to be kept, and the payload can be put together. */
        READY,
        /** Its payload needs no more segments. */
        DONE
    }

    /**
     * What is to be done.
     *
     * @param verdict with the segment
     * @param evicted payloads that were given up for it
     */
    public record Admission(Verdict verdict, List<PayloadKey> evicted) {
        Admission(Verdict verdict) {
            this(verdict, List.of());
        }
    }

    /**
     * What was forgotten.
     *
     * @param late payloads that waited too long for their segments
     * @param old deliveries that need not be known any more
     */
    public record Expired(List<PayloadKey> late, List<PayloadKey> old) {}

    private final SegmentLimits limits;
    private final Room room;
    /** In the order of their newest segments. */
    private final Map<PayloadKey, Reconstruction> gathering = new LinkedHashMap<>();

    private final Map<PayloadKey, Reconstruction> ready = new HashMap<>();
    /** When they were delivered, the oldest first. */
    private final Map<PayloadKey, Long> done = new LinkedHashMap<>();

    private final Map<String, Integer> doneOf = new HashMap<>();

    /**
     * A receiver that holds nothing.
     *
     * @param limits what it may hold
     */
    public Reassembly(SegmentLimits limits) {
        this.limits = limits;
        room = new Room(limits);
    }

    /**
     * Decides about a valid segment. After READY the payload waits for {@link #complete} or {@link #discard}.
     *
     * @param key whose payload it belongs to
     * @param segment a valid one
     * @param nowMs when it came
     * @param mostBytes a lower limit of this payload, where there is one
     * @return what is to be done
     * @throws WireException SEGMENT_CONFLICT, SEGMENT_LIMIT
     */
    public Admission admit(PayloadKey key, Segment segment, long nowMs, long mostBytes) {
        if (done.containsKey(key)) {
            return new Admission(Verdict.DONE);
        }
        Reconstruction one = reconstruction(key);
        if (one != null && one.contradicts(segment)) {
            throw new WireException("SEGMENT_CONFLICT", "contradicts what came before of the same payload");
        }
        if (one != null && one.holds(segment.slot())) {
            return new Admission(Verdict.HELD);
        }
        if (one != null && one.isReady()) {
            return new Admission(Verdict.DONE);
        }
        return keep(key, one, segment, nowMs, Math.min(mostBytes, limits.payloadBytes()));
    }

    private Admission keep(PayloadKey key, Reconstruction known, Segment segment, long nowMs, long mostBytes) {
        checkSize(segment, mostBytes);
        List<PayloadKey> evicted = segment.dataCount() == 1
                ? List.of()
                : room.make(gathering.values(), key, known, segment.payload().length);
        evicted.forEach(gathering::remove);
        Reconstruction one =
                known != null ? known : new Reconstruction(key, segment.dataCount(), segment.parityCount(), nowMs);
        one.hold(segment.slot(), segment.payload().length, nowMs);
        gathering.remove(key); // it comes last now
        (one.isReady() ? ready : gathering).put(key, one);
        return new Admission(one.isReady() ? Verdict.READY : Verdict.KEPT, evicted);
    }

    private static void checkSize(Segment segment, long most) {
        long size = segment.payload().length;
        long least = segment.isLastData() ? size : (segment.dataCount() - 1) * size + 1;
        if (least > most) {
            throw new WireException(
                    "SEGMENT_LIMIT", "a payload of " + least + " bytes and more exceeds the limit of " + most);
        }
    }

    /**
     * What is known of a payload that is not complete.
     *
     * @param key whose payload it is
     * @return null if nothing is
     */
    public Reconstruction reconstruction(PayloadKey key) {
        Reconstruction one = gathering.get(key);
        return one != null ? one : ready.get(key);
    }

    /**
     * Whether a payload was delivered.
     *
     * @param key whose payload it is
     * @return true until it is forgotten
     */
    public boolean isComplete(PayloadKey key) {
        return done.containsKey(key);
    }

    /**
     * Notes a delivery.
     *
     * @param key whose payload it is
     * @param nowMs when
     * @return deliveries that were forgotten for it
     */
    public List<PayloadKey> complete(PayloadKey key, long nowMs) {
        discard(key);
        remember(key, nowMs);
        List<PayloadKey> forgotten = new ArrayList<>();
        while (doneOf.get(key.sender()) > limits.senderCompletions()) {
            forgotten.add(forgetOldest(key.sender()));
        }
        while (done.size() > limits.completions()) {
            String most = doneOf.entrySet().stream()
                    .max(Map.Entry.comparingByValue())
                    .orElseThrow()
                    .getKey();
            forgotten.add(forgetOldest(most));
        }
        return forgotten;
    }

    private void remember(PayloadKey key, long sinceMs) {
        if (done.put(key, sinceMs) == null) {
            doneOf.merge(key.sender(), 1, Integer::sum);
        }
    }

    private PayloadKey forgetOldest(String sender) {
        PayloadKey oldest = done.keySet().stream()
                .filter(key -> key.sender().equals(sender))
                .findFirst()
                .orElseThrow();
        done.remove(oldest);
        noteForgotten(oldest);
        return oldest;
    }

    private void noteForgotten(PayloadKey key) {
        doneOf.computeIfPresent(key.sender(), (sender, count) -> count == 1 ? null : count - 1);
    }

    /**
     * Forgets a payload that is not complete, so that it may be sent anew.
     *
     * @param key whose payload it is
     */
    public void discard(PayloadKey key) {
        ready.remove(key);
        gathering.remove(key);
    }

    /**
     * Forgets what waited too long.
     *
     * @param nowMs the time
     * @return what was forgotten
     */
    public Expired expire(long nowMs) {
        List<PayloadKey> late = gathering.values().stream()
                .filter(one -> nowMs - one.touchedMs() >= limits.idle().toMillis()
                        || nowMs - one.begunMs() >= limits.total().toMillis())
                .map(Reconstruction::key)
                .toList();
        late.forEach(gathering::remove);
        List<PayloadKey> old = new ArrayList<>();
        Iterator<Map.Entry<PayloadKey, Long>> oldest = done.entrySet().iterator();
        while (oldest.hasNext()) {
            Map.Entry<PayloadKey, Long> one = oldest.next();
            if (nowMs - one.getValue() < limits.completion().toMillis()) {
                break;
            }
            old.add(one.getKey());
            noteForgotten(one.getKey());
            oldest.remove();
        }
        return new Expired(late, old);
    }

    /**
     * Takes up what a store kept; a payload with enough segments waits for one that comes again.
     *
     * @param kept payloads that are not complete
     * @param delivered when others were delivered
     */
    public void restore(Collection<Reconstruction> kept, Map<PayloadKey, Long> delivered) {
        kept.stream()
                .sorted((one, other) -> Long.compare(one.touchedMs(), other.touchedMs()))
                .forEach(one -> gathering.put(one.key(), one));
        delivered.entrySet().stream()
                .sorted(Map.Entry.comparingByValue())
                .forEach(one -> remember(one.getKey(), one.getValue()));
    }

    /**
     * Which payloads are given up for a new segment: those of its own sender where that one's limit is reached, else
     * of the sender who holds most. So nobody who holds less than an equal share loses anything through others.
     */
    static final class Room {
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
                    new Measure(
                            limits.senderReconstructions(), limits.reconstructions(), own == null ? 1 : 0, any -> 1),
                    new Measure(limits.senderBufferedBytes(), limits.bufferedBytes(), size, Reconstruction::buffered));
            List<Reconstruction> left = new ArrayList<>(gathering);
            List<PayloadKey> evicted = new ArrayList<>();
            for (Measure measure : measures) {
                for (String sender = crowded(measure, left, key);
                        sender != null;
                        sender = crowded(measure, left, key)) {
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
            return left.stream()
                    .filter(one ->
                            one.key().sender().equals(sender) && !one.key().equals(key))
                    .findFirst()
                    .orElseThrow(() -> new WireException("SEGMENT_LIMIT", "the segment finds no room"));
        }
    }
}
