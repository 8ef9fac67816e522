package speed.internal.segment;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import speed.errors.WireException;
import speed.internal.segment.Segment.PayloadKey;
import speed.options.SegmentLimits;

/**
 * Segments of any sender in, whole payloads out, in memory: the receiving side for who uses the library alone. For one
 * thread at a time.
 */
public final class Assembler {
    private static final int MESSAGE = 1;

    /** What became of a segment. */
    public enum Verdict {
        /** It is held. */
        KEPT,
        /** It was held already. */
        DUPLICATE,
        /** Its payload is put together and comes with this outcome. */
        COMPLETE,
        /** Its payload was put together before. */
        DONE
    }

    /**
     * What became of a segment.
     *
     * @param verdict whether it was kept, and whether its payload is whole
     * @param payload with COMPLETE, else null
     */
    public record Outcome(Verdict verdict, byte[] payload) {}

    private final Reassembly reassembly;
    private final Map<PayloadKey, MemoryShards> shards = new HashMap<>();

    /** An assembler with the default limits. */
    public Assembler() {
        this(SegmentLimits.DEFAULT);
    }

    /**
     * An assembler.
     *
     * @param limits of what it may hold
     */
    public Assembler(SegmentLimits limits) {
        reassembly = new Reassembly(limits);
    }

    /**
     * Takes one segment.
     *
     * @param sender who sent it
     * @param data its bytes
     * @param nowMs the time in ms, of any clock that never goes back
     * @return what became of it
     * @throws WireException BAD_SEGMENT, SEGMENT_CONFLICT, SEGMENT_LIMIT, SEGMENT_HASH; the next segment is unharmed
     */
    public Outcome receive(String sender, byte[] data, long nowMs) {
        expire(nowMs);
        Segment segment = Segment.read(data);
        PayloadKey key = new PayloadKey(sender, MESSAGE, segment.hash());
        Reassembly.Admission admission = reassembly.admit(key, segment, nowMs, Long.MAX_VALUE);
        admission.evicted().forEach(shards::remove);
        switch (admission.verdict()) {
            case DONE:
                return new Outcome(Verdict.DONE, null);
            case HELD:
                return again(key, segment);
            default:
                shards.computeIfAbsent(key, any -> new MemoryShards(segment.dataCount(), segment.parityCount()))
                        .put(segment);
                return admission.verdict() == Reassembly.Verdict.READY
                        ? finish(key, nowMs)
                        : new Outcome(Verdict.KEPT, null);
        }
    }

    /**
     * Forgets what waited too long.
     *
     * @param nowMs the time in ms
     * @return the payloads that are lost
     */
    public List<PayloadKey> expire(long nowMs) {
        List<PayloadKey> late = reassembly.expire(nowMs).late();
        late.forEach(shards::remove);
        return late;
    }

    private Outcome again(PayloadKey key, Segment segment) {
        if (!Arrays.equals(shards.get(key).part(segment.slot()), segment.payload())) {
            throw new WireException("SEGMENT_CONFLICT", "has other bytes than the segment that came before");
        }
        return new Outcome(Verdict.DUPLICATE, null);
    }

    private Outcome finish(PayloadKey key, long nowMs) {
        MemoryShards held = shards.remove(key);
        byte[] payload;
        try {
            payload = new byte[(int) Rebuild.prove(held, key.hash())];
        } catch (RuntimeException | Error failure) {
            reassembly.discard(key);
            throw failure;
        }
        held.payload(payload.length).read(0, payload, 0, payload.length);
        reassembly.complete(key, nowMs);
        return new Outcome(Verdict.COMPLETE, payload);
    }

    /** The segments of one payload, in memory. */
    static final class MemoryShards implements Shards {
        private final int dataCount;
        private final int parityCount;
        private final byte[][] parts;
        private int segmentSize;

        MemoryShards(int dataCount, int parityCount) {
            this.dataCount = dataCount;
            this.parityCount = parityCount;
            parts = new byte[dataCount + parityCount][];
        }

        void put(Segment segment) {
            parts[segment.slot()] = segment.payload();
            if (!segment.isLastData() || dataCount == 1) {
                segmentSize = segment.payload().length;
            }
        }

        byte[] part(int slot) {
            return parts[slot];
        }

        @Override
        public int dataCount() {
            return dataCount;
        }

        @Override
        public int parityCount() {
            return parityCount;
        }

        @Override
        public int segmentSize() {
            return segmentSize;
        }

        @Override
        public boolean holds(int slot) {
            return parts[slot] != null;
        }

        @Override
        public int sizeOf(int slot) {
            return parts[slot].length;
        }

        @Override
        public void read(int slot, int begin, byte[] into, int at, int count) {
            System.arraycopy(parts[slot], begin, into, at, count);
        }

        @Override
        public void write(int slot, int begin, byte[] from, int count) {
            if (parts[slot] == null) {
                parts[slot] = new byte[segmentSize];
            }
            System.arraycopy(from, 0, parts[slot], begin, count);
        }
    }
}
