package speed.internal.engine.serve;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import speed.errors.InboxFullException;
import speed.errors.SpeedException;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress.Token;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.lane.AcceptedRequest;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.engine.stream.StreamChannel;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.segment.Splitter;
import speed.internal.wire.Entry;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;

/**
 * Answers of services on their way out. Who finds no room in a caller's inbox leaves the waiting to a worker, so
 * that the thread that reads lanes never waits. An envelope is committed after its answer was appended. Thread-safe.
 */
public final class Answers {
    private static final Log LOG = new Log("speed.spc");
    /** How long an answer waits for room in the caller's full inbox before it is dropped and counted. */
    private static final long WAIT_NANOS = 5_000_000_000L;
    /** Answers of more bytes are written by who waits for room if need be. */
    private static final int SMALL_BYTES = 64 << 10;

    private final Context context;
    private final Links links;
    private final WorkerPool pool;

    public Answers(Context context, Links links, WorkerPool pool) {
        this.context = context;
        this.links = links;
        this.pool = pool;
    }

    /** The largest answer that can go to a caller. */
    long mostBytes(String caller) {
        Splitter splitter = links.splitter(caller);
        if (splitter != null) {
            return Math.min(Limits.MAX_CALL_BYTES, splitter.mostBytes());
        }
        Entry entry = context.registry.live(caller);
        return entry != null && entry.has(Entry.SEGMENTS) ? Limits.MAX_CALL_BYTES : Limits.MAX_PAYLOAD_BYTES;
    }

    /**
     * Sends answers to one caller in one write, then commits.
     *
     * @param generation of the caller that asked
     * @param tokens envelopes that are done with these answers
     */
    void send(Lane lane, int generation, List<byte[]> payloads, List<Token> tokens) {
        boolean small = payloads.stream().allMatch(payload -> payload.length <= SMALL_BYTES);
        if (small && sent(lane, generation, payloads, tokens, false)) {
            return;
        }
        if (pool.isAtWork()) {
            wait(lane, generation, payloads, tokens);
        } else {
            pool.submit(() -> wait(lane, generation, payloads, tokens));
        }
    }

    /**
     * Sends a part of a stream to a caller; throws what kept it from being sent.
     *
     * @param generation of the caller that asked
     * @param mayWait whether it waits for room
     */
    void sendPart(String caller, int generation, byte[] payload, boolean mayWait) {
        context.checkOpen();
        Load load = mayWait
                ? Load.of(
                        EnvelopeType.STREAM, EnvelopeType.REPLY, payload, System.nanoTime() + StreamChannel.WRITE_NANOS)
                : Load.urgent(EnvelopeType.STREAM, EnvelopeType.REPLY, List.of(payload));
        OutgoingLink link = links.open(caller, generation);
        pool.blocking(() -> link.send(load));
    }

    private void wait(Lane lane, int generation, List<byte[]> payloads, List<Token> tokens) {
        pool.blocking(() -> sent(lane, generation, payloads, tokens, true));
    }

    /**
     * Sends the answers of requests of one caller that never begin, those of one lane in one write. They are committed
     * before it, so that the next life of this node does not begin them either.
     */
    void sendTogether(List<AcceptedRequest> requests, Function<AcceptedRequest, byte[]> answer) {
        List<AcceptedRequest> left = new ArrayList<>(requests);
        while (!left.isEmpty()) {
            Lane lane = left.get(0).place().lane();
            int generation = left.get(0).generation();
            List<AcceptedRequest> batch = left.stream()
                    .filter(one -> one.place().lane() == lane && one.generation() == generation)
                    .toList();
            lane.finish(batch.stream().map(one -> one.place().token()).toList());
            send(lane, generation, batch.stream().map(answer).toList(), List.of());
            left.removeAll(batch);
        }
    }

    /** False if there is no room and it was not to wait. */
    private boolean sent(Lane lane, int generation, List<byte[]> payloads, List<Token> tokens, boolean wait) {
        try {
            OutgoingLink link = links.open(lane.source(), generation);
            link.send(
                    wait
                            ? new Load(
                                    EnvelopeType.SPC_RESPONSE,
                                    EnvelopeType.REPLY,
                                    payloads,
                                    System.nanoTime() + WAIT_NANOS)
                            : Load.urgent(EnvelopeType.SPC_RESPONSE, EnvelopeType.REPLY, payloads));
        } catch (SpeedException error) {
            if (error instanceof InboxFullException && !wait) {
                return false;
            }
            context.stats.count(Counters.ANSWERS_UNDELIVERED, payloads.size());
            LOG.warn("answers to {} not delivered: {}", lane.source(), error.getMessage());
        }
        if (!tokens.isEmpty()) {
            lane.finish(tokens);
        }
        return true;
    }
}
