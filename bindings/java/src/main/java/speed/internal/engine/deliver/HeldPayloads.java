package speed.internal.engine.deliver;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import speed.errors.SegmentStoreException;
import speed.errors.WireException;
import speed.internal.GuardedBy;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.fs.SegmentStore;
import speed.internal.fs.StoredShards;
import speed.internal.segment.Reassembly;
import speed.internal.segment.Reconstruction;
import speed.internal.segment.Segment;
import speed.internal.segment.Segment.PayloadKey;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.options.NodeOptions;
import speed.options.SegmentLimits;

/**
 * What a node holds in segments, and which payloads it knows to be complete: the decisions of
 * {@link Reassembly}, kept in a {@link SegmentStore}. Thread-safe; its lock is held while the store is written.
 */
final class HeldPayloads {
    private static final Log LOG = new Log("speed.segments");
    private static final long EXPIRE_MS = 1000;
    private static final int MAX_ERROR_CHARACTERS = 500;
    private static final long SMALL_BYTES = 1 << 20;
    private static final Set<Integer> MESSAGES = Set.of(EnvelopeType.MESSAGE.number(), EnvelopeType.EVENT.number());

    /** What became of a segment. */
    enum Taken {
        /** The store has it, or it was given up: its envelope is done. */
        KEPT,
        /** Its payload is complete, or in hand. */
        REPEATED,
        /** It is the whole payload. */
        WHOLE,
        /** Its payload can be put together. */
        READY,
        /** Likewise, and it is so small that the thread that reads may do it. */
        READY_AND_SMALL
    }

    /** Tells a sender that a payload will not be delivered. */
    public interface Refusal {
        void send(String sender, long sequence, String code, String text);
    }

    private final Context context;
    private final Refusal refusal;
    private final SegmentLimits limits;
    private final SegmentStore store;
    /** Sequence of the last segment of each payload that is not complete. */
    private final Map<PayloadKey, Long> latest = new HashMap<>();
    /** Payloads with enough segments, until they were handled; null where no segment lies in the store. */
    private final Map<PayloadKey, StoredShards> inHand = new HashMap<>();

    @GuardedBy("this")
    private Reassembly reassembly;

    @GuardedBy("this")
    private boolean restored;

    @GuardedBy("this")
    private boolean closed;

    @GuardedBy("this")
    private long nextExpiry;

    HeldPayloads(Context context, Refusal refusal) {
        this.context = context;
        this.refusal = refusal;
        NodeOptions options = context.options;
        limits = options.segmentLimits();
        reassembly = new Reassembly(limits);
        store = new SegmentStore(options.root(), options.name(), context::restingKeyring, options.durable());
    }

    static boolean isMessage(PayloadKey key) {
        return MESSAGES.contains(key.kind());
    }

    private static long nowMs() {
        return System.nanoTime() / 1_000_000;
    }

    /** What our clock shows more than Unix time, which the store has. */
    private static long passedMs() {
        return nowMs() - System.currentTimeMillis();
    }

    // --- segments as they come ---

    /** Takes a segment. WireException when it is refused; its sender is told if it asked for an acknowledgement. */
    synchronized Taken take(PayloadKey key, Segment segment, long sequence) {
        if (closed) {
            return Taken.KEPT; // so are its lanes: it comes again
        }
        latest.put(key, sequence);
        try {
            return admit(key, segment);
        } catch (WireException refused) {
            if (refused.reason().equals("SEGMENT_LIMIT")) {
                lost(key, refused.getMessage());
            }
            throw refused;
        } catch (SegmentStoreException failure) {
            storeFailed(key, failure);
            return Taken.KEPT;
        } finally {
            if (!inHand.containsKey(key) && reassembly.reconstruction(key) == null) {
                latest.remove(key);
            }
        }
    }

    @GuardedBy("this")
    private Taken admit(PayloadKey key, Segment segment) {
        restore();
        long most = isMessage(key) ? Long.MAX_VALUE : Limits.MAX_CALL_BYTES;
        Reassembly.Admission admission = reassembly.admit(key, segment, nowMs(), most);
        evict(admission.evicted());
        if (admission.verdict() == Reassembly.Verdict.DONE || inHand.containsKey(key)) {
            context.stats.count(Counters.SEGMENTS_REPEATED);
            return Taken.REPEATED;
        }
        Reconstruction one = reassembly.reconstruction(key);
        if (admission.verdict() == Reassembly.Verdict.HELD) {
            compare(key, segment);
        } else if (one.dataCount() == 1 && !segment.isParity()) {
            inHand.put(key, null);
            return Taken.WHOLE;
        } else {
            store.put(one, one.begunMs() - passedMs(), segment, System.currentTimeMillis());
        }
        if (!one.isReady()) {
            return Taken.KEPT;
        }
        inHand.put(key, null);
        boolean isSmall = (long) one.dataCount() * one.segmentSize() <= SMALL_BYTES;
        return isSmall ? Taken.READY_AND_SMALL : Taken.READY;
    }

    private void evict(List<PayloadKey> evicted) {
        for (PayloadKey key : evicted) {
            context.stats.count(Counters.SEGMENTS_EVICTED);
            lost(key, "its segments were given up to make room for newer ones");
        }
        store.remove(evicted);
    }

    private void compare(PayloadKey key, Segment segment) {
        context.stats.count(Counters.SEGMENTS_DUPLICATE);
        byte[] payload = segment.payload();
        try (StoredShards shards = store.shards(key)) {
            byte[] held = new byte[shards.sizeOf(segment.slot())];
            shards.read(segment.slot(), 0, held, 0, held.length);
            if (!Arrays.equals(held, payload)) {
                throw new WireException("SEGMENT_CONFLICT", "has other bytes than the segment that came before");
            }
        }
    }

    /** Whether a payload was delivered. */
    synchronized boolean isComplete(PayloadKey key) {
        return reassembly.isComplete(key);
    }

    /** The segments of a payload that is ready, readable until it is complete or failed. */
    synchronized StoredShards shards(PayloadKey key) {
        StoredShards shards = store.shards(key);
        inHand.put(key, shards);
        return shards;
    }

    // --- how a payload ends ---

    /** A payload was handled: it is never delivered again. */
    synchronized void complete(PayloadKey key) {
        if (closed) {
            return; // it comes again
        }
        letGo(key);
        latest.remove(key);
        List<PayloadKey> forgotten = reassembly.complete(key, nowMs());
        try {
            store.complete(key, System.currentTimeMillis(), forgotten);
        } catch (SegmentStoreException failure) {
            storeFailed(null, failure);
        }
    }

    /** A payload cannot be put together: it is discarded, and may be sent anew. */
    synchronized void fail(PayloadKey key, WireException broken) {
        if (closed) {
            return;
        }
        context.stats.count(Counters.rejected(broken.reason()));
        LOG.warn("payload in segments of {} rejected: {}", key.sender(), broken.getMessage());
        discard(key);
        if (!broken.reason().equals("BAD_MESSAGE")) {
            lost(key, broken.getMessage());
        }
        latest.remove(key);
    }

    /** A payload cannot be read any more. */
    synchronized void fail(PayloadKey key, SegmentStoreException failure) {
        if (!closed) {
            letGo(key);
            storeFailed(key, failure);
        }
    }

    private void letGo(PayloadKey key) {
        StoredShards shards = inHand.remove(key);
        if (shards != null) {
            shards.close();
        }
    }

    @GuardedBy("this")
    private void discard(PayloadKey key) {
        letGo(key);
        reassembly.discard(key);
        try {
            store.remove(List.of(key));
        } catch (SegmentStoreException failure) {
            storeFailed(null, failure);
        }
    }

    private void lost(PayloadKey key, String why) {
        Long sequence = latest.remove(key);
        context.stats.count(Counters.PAYLOADS_LOST);
        if (sequence != null && context.policy.allows(key.sender())) {
            refusal.send(
                    key.sender(),
                    sequence,
                    "SEGMENTS_LOST",
                    why.substring(0, Math.min(why.length(), MAX_ERROR_CHARACTERS)));
        }
    }

    @GuardedBy("this")
    private void storeFailed(PayloadKey key, SegmentStoreException failure) {
        context.stats.count(Counters.SEGMENT_STORE_FAILURES);
        LOG.warn("segments of {}: {}", key == null ? "a payload" : key.sender(), failure.getMessage());
        if (key != null) {
            lost(key, failure.getMessage());
        }
        if (failure.isDamaged()) {
            beginAnew();
        } else if (key != null) {
            reassembly.discard(key);
            tryTo(() -> store.remove(List.of(key)));
        }
    }

    /** The store was damaged: what it held is lost, and whoever waits for it is told. */
    @GuardedBy("this")
    private void beginAnew() {
        reassembly = new Reassembly(limits);
        latest.keySet().stream()
                .filter(key -> !inHand.containsKey(key))
                .toList()
                .forEach(key -> lost(key, "the receiver's store of segments was damaged"));
        tryTo(store::startAnew);
    }

    private void tryTo(Runnable tidying) {
        try {
            tidying.run();
        } catch (SegmentStoreException failure) {
            context.stats.count(Counters.SEGMENT_STORE_FAILURES);
        }
    }

    // --- time ---

    /** Gives up what waited too long; looked at about every second. */
    synchronized void expire() {
        long now = nowMs();
        if (closed || now < nextExpiry || !restored && !store.exists()) {
            return;
        }
        nextExpiry = now + EXPIRE_MS;
        try {
            restore();
            Reassembly.Expired expired = reassembly.expire(now);
            for (PayloadKey key : expired.late()) {
                context.stats.count(Counters.SEGMENTS_EXPIRED);
                lost(key, "not all of its segments came in time");
            }
            store.remove(expired.late());
            store.forget(expired.old());
        } catch (SegmentStoreException failure) {
            storeFailed(null, failure);
        }
    }

    /** Takes up what an earlier process kept; the time while none ran counts. */
    @GuardedBy("this")
    private void restore() {
        if (restored) {
            return;
        }
        long passed = passedMs();
        SegmentStore.Content content = store.load();
        Map<PayloadKey, Long> delivered = new HashMap<>();
        content.completions().forEach((key, atMs) -> delivered.put(key, atMs + passed));
        restored = true;
        reassembly.restore(
                content.kept().stream().map(one -> one.reconstruction(passed)).toList(), delivered);
    }

    /** Lets go of everything; what is in hand comes again to the next process of this name. */
    synchronized void close() {
        closed = true;
        List.copyOf(inHand.keySet()).forEach(this::letGo);
        store.close();
    }
}
