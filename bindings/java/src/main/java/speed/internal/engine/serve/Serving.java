package speed.internal.engine.serve;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import speed.Request;
import speed.Response;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.internal.core.CallErrors;
import speed.internal.core.Counters;
import speed.internal.core.Interceptors;
import speed.internal.core.LaneProgress.Token;
import speed.internal.core.Log;
import speed.internal.core.Scheduler;
import speed.internal.core.ServiceTable;
import speed.internal.core.Work;
import speed.internal.engine.Context;
import speed.internal.engine.Context.Trace;
import speed.internal.engine.lane.AcceptedRequest;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.engine.threads.WorkerPool.Job;
import speed.internal.fs.LaneReader.Beginning;
import speed.internal.fs.Posix;
import speed.internal.fs.Received;
import speed.internal.fs.ThisProcess;
import speed.internal.wire.Fault;
import speed.internal.wire.SpcHead;
import speed.internal.wire.SpcResponse;

/**
 * The serving side of SPC: ten steps, as spc.md counts them. The thread that reads lanes does the first two, and reads no more than
 * the head; a worker does the others. A request is answered exactly once: by whoever asks {@link AcceptedRequest#answer} first.
 */
public final class Serving {
    private static final Log LOG = new Log("speed.spc");
    private static final int LARGE_BYTES = 1 << 20;
    /** A request that waited longer begins only after a look at its caller. */
    private static final long LOOK_MS = 100;

    private static final long LONGEST_MS = 365L * 24 * 3600 * 1000;

    /** The services that this node offers. */
    public final ServiceTable services = new ServiceTable();

    /** What stands around them. */
    public final Interceptors<Request> around = new Interceptors<>();

    private final Context context;
    private final WorkerPool pool;
    private final Answers answers;
    private final ServedStreams streams;

    public Serving(Context context, WorkerPool pool, Answers answers) {
        this.context = context;
        this.pool = pool;
        this.answers = answers;
        streams = new ServedStreams(context, pool, answers, around);
    }

    /** A STREAM envelope of a caller; false if nobody waits for it. */
    public boolean arrive(String source, byte[] payload) {
        return streams.arrive(source, payload);
    }

    // --- by the thread that reads lanes ---

    /** Queues one authenticated, authorised request (steps 1 and 2 are done). */
    public void accept(Lane lane, Received received) {
        SpcHead head;
        try {
            head = SpcHead.decode(received.payload());
            if (!head.caller().equals(lane.source())) {
                throw new WireException("BAD_PAYLOAD", "caller is not the sender");
            }
        } catch (WireException broken) {
            reject(lane, received, "INVALID_ARGUMENTS", broken.getMessage());
            throw broken;
        }
        if (isForAnother(head)) {
            replaced(lane, received, head);
            return;
        }
        AcceptedRequest accepted = new AcceptedRequest(this::serve, lane, received, head, deadline(head));
        Scheduler.Admitted<Job> admitted = pool.request(lane.source(), head.requestId(), accepted, accepted.deadline);
        switch (admitted.admission()) {
            case WAITING -> {}
            case DUPLICATE -> repeated((AcceptedRequest) admitted.work().item, lane, received.token());
            case LEAVING -> answer(accepted, leaving());
        }
    }

    private boolean isForAnother(SpcHead head) {
        return head.generation() != context.generation;
    }

    /** Answers a request that is for another generation of this node, whatever is granted; false for any other. */
    public boolean refusedForAnother(Lane lane, Received received) {
        try {
            SpcHead head = SpcHead.decode(received.payload());
            if (isForAnother(head)) {
                replaced(lane, received, head);
                return true;
            }
        } catch (WireException broken) {
            // refused like any other
        }
        return false;
    }

    /** It never begins; its caller, if it is still there, finds out whether it began before. */
    private void replaced(Lane lane, Received received, SpcHead head) {
        context.stats.count(Counters.REQUESTS_FOR_ANOTHER_GENERATION);
        lane.finishForOther(received.token());
        if (context.registry.live(lane.source()) != null) {
            reject(
                    lane,
                    received,
                    "REPLACED",
                    "the request is for generation " + head.generation() + " of '" + context.name() + "', this is "
                            + context.generation);
        }
    }

    /** Monotonic. On one boot no jump of the wall clock moves it. */
    private static long deadline(SpcHead head) {
        boolean sameBoot = !head.bootId().isEmpty() && head.bootId().equals(ThisProcess.bootId());
        long left = sameBoot ? head.bootDeadlineMs() - Posix.bootMs() : head.deadlineMs() - System.currentTimeMillis();
        return System.nanoTime() + Math.max(-LONGEST_MS, Math.min(left, LONGEST_MS)) * 1_000_000;
    }

    private Response leaving() {
        return Response.error("LEAVING", "'" + context.name() + "' is leaving and takes no more calls");
    }

    /** One that is in hand came again: its lane failed and was opened again, and is where it is committed now. */
    private void repeated(AcceptedRequest inHand, Lane lane, Token token) {
        context.stats.count(Counters.REQUESTS_DUPLICATE);
        boolean adopted = inHand.place().lane().isClosed() && inHand.adopt(new AcceptedRequest.Place(lane, token));
        if (!adopted) {
            lane.drop(token);
        }
    }

    /** Step 2 failed: ACCESS_DENIED without looking at services. */
    public void refuse(Lane lane, Received received) {
        String text = "'" + context.name() + "' does not allow '" + lane.source() + "'";
        reject(lane, received, "ACCESS_DENIED", text);
    }

    /** Tells the caller of a request that was not accepted, if its id can be read. */
    void reject(Lane lane, Received received, String code, String text) {
        String requestId = SpcHead.readableId(received.payload());
        if (requestId != null) {
            byte[] reply = SpcResponse.error(requestId, code, text, Map.of()).encode();
            answers.send(lane, received.header().generation(), List.of(reply), List.of());
        }
    }

    /** The caller withdraws requests: those that wait never begin, those that run are told. */
    public void withdraw(String source, List<String> requestIds) {
        List<AcceptedRequest> ended = new ArrayList<>();
        for (String requestId : requestIds) {
            Work<Job> work = pool.withdraw(source, requestId);
            if (work != null) {
                context.stats.count(Counters.REQUESTS_WITHDRAWN);
                AcceptedRequest one = (AcceptedRequest) work.item;
                if (services.has(one.head.service())) {
                    context.stats.withdrawn(one.head.service());
                }
                one.withdraw();
                if (work.state() == Work.State.ENDED && one.answer() != null) {
                    ended.add(one);
                }
            }
        }
        answers.sendTogether(ended, one -> serialised(one, withdrawn("queued")));
    }

    private static Response withdrawn(String phase) {
        return Response.error("WITHDRAWN", "the call was withdrawn while " + phase, Map.of("phase", phase));
    }

    /** A caller left or died: nobody waits for its answers. */
    public void forget(String source) {
        forget(source, Integer.MAX_VALUE);
    }

    /** A caller was replaced by that generation of it: nobody waits for what it asked before. */
    public void forget(String source, int successor) {
        for (Work<Job> work : pool.forget(source, job -> ((AcceptedRequest) job).generation() < successor)) {
            AcceptedRequest one = (AcceptedRequest) work.item;
            if (one.cancellation.isCancelled()) {
                continue; // it was told before
            }
            context.stats.count(Counters.REQUESTS_FORGOTTEN);
            one.withdraw();
            if (work.state() == Work.State.ENDED && one.answer() != null) {
                one.place().lane().finish(List.of(one.place().token()));
            }
        }
    }

    /** Those who wait here for answers. */
    public List<String> callers() {
        return pool.callers();
    }

    /** TIMEOUT for a request that never begins. */
    public void expireWaiting(AcceptedRequest late) {
        answer(late, timeout(late, "queued"));
    }

    /** TIMEOUT for one that runs: it is told, goes on, and its result is dropped. */
    public void expireRunning(AcceptedRequest late) {
        AcceptedRequest.Phase phase = late.answer();
        if (phase != null) {
            String word = phase == AcceptedRequest.Phase.BEGUN ? "running" : "queued";
            reply(late, phase, timeout(late, word));
        }
        late.withdraw();
    }

    private Response timeout(AcceptedRequest late, String phase) {
        boolean isQueued = phase.equals("queued");
        context.stats.count(isQueued ? Counters.REQUESTS_TIMED_OUT_QUEUED : Counters.REQUESTS_TIMED_OUT_RUNNING);
        if (services.has(late.head.service())) { // others choose the rest, and how many there are
            context.stats.timedOut(late.head.service(), isQueued);
        }
        return Response.error(
                "TIMEOUT",
                "the deadline of '" + late.head.service() + "' passed while " + phase + ": allow it more time",
                Map.of("phase", phase));
    }

    /** The node closes before these began. */
    public void refuseWaiting(List<Work<Job>> works) {
        works.forEach(work -> answer((AcceptedRequest) work.item, leaving()));
    }

    /** The node ends: what still runs is told. */
    public void cancelRunning() {
        pool.requests().forEach(work -> ((AcceptedRequest) work.item).withdraw());
    }

    // --- by a worker ---

    /** Steps 3 to 10. */
    private void serve(AcceptedRequest accepted) {
        if (accepted.cancellation.isCancelled()) {
            answer(accepted, withdrawn("queued")); // looked at once more, between queue and start
            return;
        }
        if (System.nanoTime() >= accepted.deadline) {
            expireWaiting(accepted);
            return;
        }
        if (hasWaited(accepted) && context.registry.isGone(accepted.source())) {
            forget(accepted.source()); // this one is taken already
            leave(accepted);
            return;
        }
        SpcHead head = accepted.head;
        ServiceTable.Found found = services.find(head.service(), accepted.source());
        if (found.refusal() != null) {
            if (found.refusal().errorCode().equals("SERVICE_NOT_FOUND")) {
                context.stats.count(Counters.REQUESTS_FOR_NO_SERVICE);
            } else if (found.refusal().errorCode().equals("ACCESS_DENIED")) {
                context.stats.refusedSender(accepted.source());
                context.stats.refused(head.service());
            }
            answer(accepted, found.refusal());
            return;
        }
        if (accepted.payload.length > LARGE_BYTES) {
            pool.begun(); // nobody waits for so much to be read
        }
        Map<String, Object> arguments;
        try {
            arguments = head.arguments(accepted.payload, found.options().views());
        } catch (WireException broken) {
            context.stats.count(Counters.REJECTED_BAD_PAYLOAD);
            answer(accepted, Response.error("INVALID_ARGUMENTS", broken.getMessage()));
            return;
        }
        if (!commit(accepted, found.options().idempotent())) {
            return;
        }
        if (!accepted.begin()) {
            answer(accepted, withdrawn("queued"));
            return;
        }
        pool.begun();
        run(accepted, found, arguments);
    }

    /** Whether so much time passed since it was written that its caller may have ended. */
    private static boolean hasWaited(AcceptedRequest accepted) {
        return System.currentTimeMillis() - accepted.writtenMs > LOOK_MS;
    }

    /** Nobody is there to be answered. */
    private void leave(AcceptedRequest accepted) {
        accepted.withdraw();
        if (accepted.answer() != null) {
            context.stats.count(Counters.REQUESTS_FORGOTTEN);
            accepted.commit();
        }
    }

    /** Commits a request before it begins, so that it runs at most once; false if it must not begin. */
    private boolean commit(AcceptedRequest accepted, boolean isIdempotent) {
        if (!isIdempotent && (accepted.uncertain || accepted.head.repeated())) {
            context.stats.count(Counters.REQUESTS_IN_DOUBT);
            answer(
                    accepted,
                    Response.error(
                            "INTERNAL_ERROR",
                            "'" + accepted.head.service() + "' may have run before its node was interrupted",
                            Map.of("phase", "running")));
            return false;
        }
        AcceptedRequest.Place place = accepted.place();
        // Without its lease it begins nothing, whether a successor has read the lane yet or not.
        Beginning written = context.registration.isOver()
                ? Beginning.REPLACED
                : place.lane().begin(place.token(), isIdempotent);
        while (written == Beginning.UNWRITTEN && place.lane().isClosed() && !accepted.cancellation.isCancelled()) {
            AcceptedRequest.Place failed = place;
            place = pool.blocking(() -> accepted.awaitAnother(failed)); // its lane is opened again
            written = place.lane().begin(place.token(), isIdempotent);
        }
        if (written != Beginning.WRITTEN) {
            context.stats.count(Counters.REQUESTS_NOT_BEGUN);
        }
        switch (written) {
            case WRITTEN -> {
                if (!isIdempotent) {
                    accepted.committed();
                }
            }
            case UNWRITTEN ->
                answer(
                        accepted,
                        Response.error(
                                "INTERNAL_ERROR",
                                "that '" + accepted.head.service()
                                        + "' begins cannot be written: whether it ran cannot be told later",
                                Map.of("phase", "running")));
            case REPLACED -> {
                accepted.answer(); // nobody answers it here any more
                context.registration.replaced();
            }
        }
        return written == Beginning.WRITTEN;
    }

    private void run(AcceptedRequest accepted, ServiceTable.Found found, Map<String, Object> arguments) {
        SpcHead head = accepted.head;
        Request request = new Request(
                head.service(),
                arguments,
                accepted.source(),
                accepted.identity,
                accepted.source() + "/" + head.requestId(),
                head.deadlineMs(),
                head.traceparent(),
                head.repeated(),
                accepted.cancellation,
                null);
        Consumer<Throwable> failed = failure -> LOG.error(
                "service '{}' failed for '{}', request '{}'",
                head.service(),
                accepted.source(),
                request.requestId(),
                failure);
        long began = System.nanoTime();
        Response[] response = new Response[1];
        Trace.under(
                head.traceparent(),
                () -> response[0] = head.stream() == null
                        ? ServiceTable.invoke(one -> around.through(one, found::invoke), request, failed)
                        : streams.run(accepted, found, request, failed));
        long took = System.nanoTime() - began;
        String error = response[0].errorCode();
        context.stats.served(
                head.service(), began - accepted.takenAt, took, error == null ? "" : CallErrors.contractsCode(error));
        answer(accepted, response[0]);
    }

    // --- answers ---

    private void answer(AcceptedRequest one, Response response) {
        AcceptedRequest.Phase phase = one.answer();
        if (phase == null) {
            context.stats.count(Counters.ANSWERS_TOO_LATE);
            return;
        }
        reply(one, phase, response);
    }

    private void reply(AcceptedRequest one, AcceptedRequest.Phase phase, Response response) {
        if (phase == AcceptedRequest.Phase.QUEUED) {
            one.commit(); // first: the next life of this node must not begin what its caller is told was not begun
        }
        AcceptedRequest.Place place = one.place();
        answers.send(place.lane(), one.generation(), List.of(serialised(one, response)), one.uncommitted());
    }

    /** Step 9; whatever fails in it is an answer as well. */
    private byte[] serialised(AcceptedRequest one, Response response) {
        String requestId = one.head.requestId();
        try {
            return response.errorCode() == null
                    ? success(one, response.result())
                    : SpcResponse.error(requestId, response.errorCode(), response.errorMessage(), response.details())
                            .encode();
        } catch (Throwable failure) { // texts and maps may be the program's code
            log(one, failure);
            return SpcResponse.error(
                            requestId,
                            "INTERNAL_ERROR",
                            "the answer could not be made: " + Fault.textOf(failure),
                            Map.of())
                    .encode();
        }
    }

    /** A result; what fails in it is the service's, whose code runs while it is read. */
    private byte[] success(AcceptedRequest one, Object result) {
        long most = answers.mostBytes(one.source());
        String why;
        try {
            byte[] reply = SpcResponse.success(one.head.requestId(), result).encode();
            if (reply.length <= most) {
                return reply;
            }
            why = reply.length + " bytes; the limit is " + most;
        } catch (UnserialisableException error) {
            why = error.getMessage();
        } catch (Throwable failure) {
            log(one, failure);
            why = Fault.textOf(failure);
        }
        String text = "the result cannot be sent: " + why;
        return SpcResponse.error(one.head.requestId(), "EXECUTION_FAILED", text, Map.of())
                .encode();
    }

    private static void log(AcceptedRequest one, Throwable failure) {
        LOG.error(
                "the answer of '{}' for '{}', request '{}', could not be made",
                one.head.service(),
                one.source(),
                one.source() + "/" + one.head.requestId(),
                failure);
    }
}
