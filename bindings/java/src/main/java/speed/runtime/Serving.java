package speed.runtime;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import speed.Request;
import speed.Response;
import speed.core.ServiceTable;
import speed.core.Token;
import speed.errors.SpeedException;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.wire.EnvelopeType;
import speed.wire.Sequence;
import speed.wire.SpcRequest;
import speed.wire.SpcResponse;
import speed.wire.Values;

/**
 * The serving side of SPC: the ten steps of S-3, one request at a time on a worker thread.
 *
 * <p>A request is answered exactly once: whoever removes it from the table answers it, the worker with its result, or
 * the protocol thread when the deadline passes first.
 */
public final class Serving {
    /** An answer of this size leaves at once: batches stay small in bytes. */
    private static final int LARGE_ANSWER_BYTES = 32 << 10;
    private static final int MAX_ERROR_CHARACTERS = 500;
    private static final long NEVER = Long.MAX_VALUE;
    private static final long LONGEST_MS = 365L * 24 * 3600 * 1000;

    /** One accepted request until it is answered; the token commits its envelope. */
    private static final class Running {
        final Lane lane;
        final Token token;
        final SpcRequest request;
        final long deadline;
        volatile boolean started;

        Running(Lane lane, Token token, SpcRequest request, long deadline) {
            this.lane = lane;
            this.token = token;
            this.request = request;
            this.deadline = deadline;
        }

        int generation() {
            return Sequence.generation(token.sequence);
        }

        Key key() {
            return new Key(lane.source(), request.requestId());
        }
    }

    private record Key(String source, String requestId) {}

    /** The services that this node offers. */
    public final ServiceTable services = new ServiceTable();

    private final Context context;
    private final Links links;
    private final WorkerPool pool;
    private final Answers answers;
    private final Map<Key, Running> running = new ConcurrentHashMap<>();
    private volatile long earliest = NEVER;

    Serving(Context context, Links links, WorkerPool pool, Answers answers) {
        this.context = context;
        this.links = links;
        this.pool = pool;
        this.answers = answers;
    }

    /** Queues one authenticated, authorised request (steps 1 and 2 are done); those of one sender start in order. */
    void accept(Lane lane, Token token, byte[] payload) {
        SpcRequest request;
        try {
            request = decode(lane.source(), payload);
        } catch (WireException broken) {
            reject(lane.source(), Sequence.generation(token.sequence), payload, "INVALID_ARGUMENTS", broken.getMessage());
            throw broken;
        }
        long left = Math.min(request.deadlineMs() - System.currentTimeMillis(), LONGEST_MS);
        Running accepted = new Running(lane, token, request, System.nanoTime() + left * 1_000_000);
        if (running.putIfAbsent(accepted.key(), accepted) != null) {
            context.stats.count("requests_duplicate");
            lane.drop(token);
            return;
        }
        if (accepted.deadline < earliest) {
            earliest = accepted.deadline;
        }
        pool.queue(() -> serve(accepted));
    }

    /** Step 2 failed: ACCESS_DENIED without looking at services. */
    void refuse(String source, int generation, byte[] payload) {
        String text = "'" + context.name() + "' does not allow '" + source + "'";
        reject(source, generation, payload, "ACCESS_DENIED", text);
    }

    private static SpcRequest decode(String source, byte[] payload) {
        SpcRequest request = SpcRequest.decode(payload);
        if (!request.caller().equals(source)) {
            throw new WireException("BAD_PAYLOAD", "caller is not the sender");
        }
        return request;
    }

    /** Tells the caller of a request that was not accepted, if its id can be read (S-2). */
    private void reject(String source, int generation, byte[] payload, String code, String text) {
        String requestId = SpcRequest.readableId(payload);
        if (requestId != null) {
            sendUrgently(source, generation, SpcResponse.error(requestId, code, text, Map.of()));
        }
    }

    private void serve(Running accepted) {
        if (System.nanoTime() >= accepted.deadline) {
            expire(accepted);
        }
        accepted.started = true; // before it is looked for: who takes it out and finds it not started is right
        if (running.get(accepted.key()) != accepted) {
            return;
        }
        long began = System.nanoTime();
        Response response = invoke(accepted.request);
        byte[] reply = serialise(accepted.request.requestId(), response, links.mostBytes(accepted.lane.source()));
        String error = response.errorCode() == null ? "" : response.errorCode() + ": " + response.errorMessage();
        context.stats.served(accepted.request.service(), System.nanoTime() - began,
                Values.wellFormed(error.substring(0, Math.min(error.length(), MAX_ERROR_CHARACTERS))));
        if (!running.remove(accepted.key(), accepted)) {
            context.stats.count("answers_too_late");
            return;
        }
        answers.add(accepted.lane, accepted.generation(), reply, accepted.token); // 10: seal, append, ring, commit
        if (reply.length > LARGE_ANSWER_BYTES) {
            answers.flush();
        }
    }

    /** Steps 3 to 8: find, check, invoke; any failure is a response. */
    private Response invoke(SpcRequest wire) {
        Request request = new Request(wire.service(), wire.arguments(), wire.caller(), wire.requestId(),
                wire.deadlineMs(), wire.traceparent());
        Response[] response = new Response[1];
        Trace.under(wire.traceparent(), () -> {
            pool.enter();
            response[0] = services.invoke(request);
        });
        return response[0];
    }

    /** Step 9. */
    private static byte[] serialise(String requestId, Response response, long most) {
        if (response.errorCode() != null) {
            return SpcResponse.error(requestId, response.errorCode(), response.errorMessage(), response.details())
                    .encode();
        }
        String why;
        try {
            byte[] reply = SpcResponse.success(requestId, response.result()).encode();
            if (reply.length <= most) {
                return reply;
            }
            why = reply.length + " bytes; the limit is " + most;
        } catch (UnserialisableException error) {
            why = error.getMessage();
        }
        return SpcResponse.error(requestId, "EXECUTION_FAILED", "the result cannot be sent: " + why, Map.of()).encode();
    }

    /** Answers from the protocol thread, which never waits: a full inbox loses it, counted. */
    private void sendUrgently(String source, int generation, SpcResponse response) {
        try {
            links.open(source, generation).send(OutgoingLink.Load.urgent(
                    EnvelopeType.SPC_RESPONSE, EnvelopeType.REPLY, java.util.List.of(response.encode())));
        } catch (SpeedException error) {
            context.stats.count("answers_undelivered");
        }
    }

    /** Answers TIMEOUT for what is over its deadline; a running service goes on, its result is dropped (S-4). */
    void expire(long now) {
        if (now < earliest) {
            return;
        }
        earliest = NEVER;
        long next = NEVER;
        for (Running accepted : running.values()) {
            if (accepted.deadline <= now) {
                expire(accepted);
            } else {
                next = Math.min(next, accepted.deadline);
            }
        }
        earliest = Math.min(earliest, next);
    }

    private void expire(Running late) {
        if (!running.remove(late.key(), late)) {
            return;
        }
        String phase = late.started ? "running" : "queued";
        context.stats.count("requests_timed_out_" + phase);
        String text = "the deadline of '" + late.request.service() + "' passed while " + phase
                + ": allow it more time";
        sendUrgently(late.lane.source(), late.generation(),
                SpcResponse.error(late.request.requestId(), "TIMEOUT", text, Map.of("phase", phase)));
        late.lane.finish(java.util.List.of(late.token));
    }

    /** Monotonic time not after the earliest open deadline. */
    long nextDeadline() {
        return running.isEmpty() ? NEVER : earliest;
    }
}
