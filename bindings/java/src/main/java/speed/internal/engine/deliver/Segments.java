package speed.internal.engine.deliver;

import java.util.Arrays;
import java.util.List;
import speed.errors.SegmentStoreException;
import speed.errors.WireException;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress.Token;
import speed.internal.core.Log;
import speed.internal.core.RequestBarrier;
import speed.internal.engine.Context;
import speed.internal.engine.lane.Arrival;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.engine.threads.Futures;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.fs.LaneReader.Beginning;
import speed.internal.fs.Received;
import speed.internal.fs.StoredShards;
import speed.internal.segment.Keccak;
import speed.internal.segment.Rebuild;
import speed.internal.segment.Segment;
import speed.internal.segment.Segment.PayloadKey;
import speed.internal.segment.Source;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.internal.wire.MessageFront;
import speed.internal.wire.MessageView;

/**
 * Segments as they arrive: held, put together, handed on as what an envelope without them would carry.
 * They are taken under the protocol role; large payloads, and messages, are put together by others. Thread-safe.
 */
public final class Segments {
    private static final Log LOG = new Log("speed.segments");
    /** What a payload that is put together leads to. */
    public interface Delivery {
        /** Handles a payload as if it had come in one envelope. */
        void whole(Lane lane, Received received);

        /** Queues a message that is put together by who handles it, in an order. */
        void message(Lane lane, Received received, Arrival.Assembly assembly, Object order);

        /** Answers what came again after it was complete. */
        void acknowledge(String source, Received received);
    }

    private final Context context;
    private final WorkerPool pool;
    private final Futures futures;
    private final Delivery delivery;
    private final HeldPayloads held;
    private final RequestBarrier barrier = new RequestBarrier();

    public Segments(
            Context context, WorkerPool pool, Futures futures, Delivery delivery, HeldPayloads.Refusal refusal) {
        this.context = context;
        this.pool = pool;
        this.futures = futures;
        this.delivery = delivery;
        held = new HeldPayloads(context, refusal);
    }

    /** A payload in hand: the lane and the envelope that made it ready. */
    private final class InHand implements Lane {
        final PayloadKey key;
        final Lane lane;
        final Received received;
        private volatile boolean failed;

        InHand(PayloadKey key, Lane lane, Received received) {
            this.key = key;
            this.lane = lane;
            this.received = received;
        }

        @Override
        public String source() {
            return lane.source();
        }

        /**
         * A message is complete before its last segment is committed, so that it is not handled again. A request begins
         * by its commit: until then it comes again, and is not complete.
         */
        @Override
        public boolean finish(List<Token> tokens) {
            boolean isRequest = received.header().type() == EnvelopeType.SPC_REQUEST;
            if (!isRequest && !failed) {
                held.complete(key);
            }
            boolean written = lane.finish(tokens);
            if (isRequest && written) {
                held.complete(key);
            }
            return written;
        }

        @Override
        public boolean isClosed() {
            return lane.isClosed();
        }

        @Override
        public int begin(Token token) {
            return lane.begin(token);
        }

        @Override
        public Beginning begin(Token token, boolean isIdempotent) {
            Beginning beginning = lane.begin(token, isIdempotent);
            if (beginning == Beginning.WRITTEN && !isIdempotent) {
                held.complete(key);
            }
            return beginning;
        }

        @Override
        public void finishForOther(Token token) {
            lane.finishForOther(token);
            held.complete(key);
        }

        @Override
        public void drop(Token token) {
            held.complete(key);
            lane.drop(token);
        }
    }

    /** Takes one segment; WireException for one that is refused. */
    public void accept(Lane lane, Received received) {
        Segment segment = Segment.read(received.payload());
        Header header = received.header();
        if (header.type() == EnvelopeType.SPC_RESPONSE && !context.pending.isWaitingFor(lane.source())) {
            context.stats.count(Counters.ANSWERS_UNEXPECTED);
            lane.drop(received.token());
            return;
        }
        PayloadKey key = new PayloadKey(lane.source(), header.type().number(), segment.hash());
        InHand one = new InHand(key, lane, received);
        switch (held.take(key, segment, header.sequence())) {
            case KEPT -> lane.drop(received.token());
            case REPEATED -> repeated(one);
            case WHOLE -> whole(one, segment.payload());
            case READY_AND_SMALL -> ready(one, segment.unordered(), true);
            default -> ready(one, segment.unordered(), false);
        }
    }

    private void repeated(InHand one) {
        one.lane.drop(one.received.token());
        if (held.isComplete(one.key) && one.received.header().has(EnvelopeType.ACK_REQUESTED)) {
            delivery.acknowledge(one.source(), one.received);
        }
    }

    /** A payload of one segment. */
    private void whole(InHand one, byte[] payload) {
        if (Arrays.equals(Keccak.of(payload), one.key.hash())) {
            deliver(one, () -> delivery.whole(one, one.received.with(payload)));
        } else {
            held.fail(one.key, new WireException("SEGMENT_HASH", "the payload is not what its hash says"));
            one.lane.drop(one.received.token());
        }
    }

    /**
     * A message takes its place among its sender's now; who handles it puts it together. A small request does so too: what
     * comes behind it, its withdrawal as well, does not overtake it.
     */
    private void ready(InHand one, boolean unordered, boolean small) {
        if (HeldPayloads.isMessage(one.key)) {
            delivery.message(one, one.received, () -> content(one), unordered ? one.key : one.source());
        } else if (small) {
            assemble(one);
        } else if (one.received.header().type() == EnvelopeType.SPC_RESPONSE) {
            futures.add(() -> assemble(one)); // whoever waits for it may hold the last worker
        } else {
            Object ticket = begin(one);
            pool.submit(() -> assembleRequest(one, ticket));
        }
    }

    private Object begin(InHand one) {
        synchronized (barrier) {
            return barrier.begin(one.source());
        }
    }

    /** Does it once the requests of {@code source} that are being put together are known; at once if there are none. */
    public void afterRequests(String source, Runnable task) {
        boolean waits;
        synchronized (barrier) {
            waits = barrier.await(source, task);
        }
        if (!waits) {
            task.run();
        }
    }

    /** Proves a request and hands it on, and then what came behind it. */
    private void assembleRequest(InHand one, Object ticket) {
        try {
            assemble(one);
        } finally {
            List<Runnable> due;
            synchronized (barrier) {
                due = barrier.end(one.source(), ticket);
            }
            due.forEach(Runnable::run);
        }
    }

    /** What a message says that is put together; WireException or SegmentStoreException where it cannot be. */
    private Arrival.Content content(InHand one) {
        try {
            StoredShards shards = held.shards(one.key);
            Source payload = shards.payload(Rebuild.prove(shards, one.key.hash()));
            context.stats.count(Counters.PAYLOADS_FROM_SEGMENTS);
            if (shards.dataCount() > 1) {
                int count = (int) Math.min(payload.size(), Limits.MAX_SEGMENTED_HEAD_BYTES);
                MessageFront front = new MessageFront(bytes(payload, count), payload.size());
                if (payload.size() > Limits.FILE_BACKED_BYTES) {
                    Source value = Source.tail(payload, front.start());
                    return new Arrival.Content(MessageView.of(front, () -> bytes(value)), value, payload);
                }
            }
            return Arrival.Content.of(bytes(payload));
        } catch (WireException broken) {
            one.failed = true;
            held.fail(one.key, broken);
            throw broken;
        } catch (SegmentStoreException failure) {
            one.failed = true;
            held.fail(one.key, failure);
            throw failure;
        }
    }

    /** Proves a request or response and hands it on. */
    private void assemble(InHand one) {
        byte[] payload;
        try {
            StoredShards shards = held.shards(one.key);
            Source source = shards.payload(Rebuild.prove(shards, one.key.hash()));
            payload = bytes(source, (int) source.size());
        } catch (WireException broken) {
            held.fail(one.key, broken);
            one.lane.drop(one.received.token());
            return;
        } catch (SegmentStoreException failure) {
            held.fail(one.key, failure);
            one.lane.drop(one.received.token());
            return;
        }
        deliver(one, () -> delivery.whole(one, one.received.with(payload)));
    }

    private static byte[] bytes(Source payload) {
        return bytes(payload, Math.toIntExact(payload.size()));
    }

    private static byte[] bytes(Source payload, int count) {
        byte[] bytes = new byte[count];
        payload.read(0, bytes, 0, count);
        return bytes;
    }

    /** Hands a payload on; one that breaks a rule is complete as well, and its sender must not try it again. */
    private void deliver(InHand one, Runnable handing) {
        context.stats.count(Counters.PAYLOADS_FROM_SEGMENTS);
        try {
            handing.run();
        } catch (WireException refused) {
            context.stats.count(Counters.rejected(refused.reason()));
            LOG.warn("payload in segments of {} rejected: {}", one.source(), refused.getMessage());
            one.drop(one.received.token());
        } catch (RuntimeException failure) {
            context.stats.count(Counters.DISPATCH_FAILURES);
            LOG.error("payload in segments of {} could not be dispatched", one.source(), failure);
            one.drop(one.received.token());
        }
        if (one.received.header().type() == EnvelopeType.SPC_RESPONSE) {
            held.complete(one.key);
        }
    }

    public void expire() {
        held.expire();
    }

    public void close() {
        held.close();
    }
}
