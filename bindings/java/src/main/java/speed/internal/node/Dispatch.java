package speed.internal.node;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;
import speed.internal.GuardedBy;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.core.PendingCalls;
import speed.internal.core.Scheduler;
import speed.internal.engine.Context;
import speed.internal.engine.Introspection;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.call.CallStreams;
import speed.internal.engine.call.Calls;
import speed.internal.engine.deliver.DeadLetterBox;
import speed.internal.engine.deliver.Delivery;
import speed.internal.engine.deliver.Segments;
import speed.internal.engine.lane.AcceptedRequest;
import speed.internal.engine.lane.Arrival;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.engine.link.Links;
import speed.internal.engine.link.Replies;
import speed.internal.engine.serve.Serving;
import speed.internal.engine.threads.Futures;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.engine.threads.WorkerPool.Job;
import speed.internal.fs.Received;
import speed.internal.wire.Control;
import speed.internal.wire.Entry;
import speed.internal.wire.Evidence.Verdict;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.internal.wire.SpcResponse;

/**
 * From an opened envelope to the part that handles it: one switch over the eight types. Runs under the
 * protocol role. Messages, events and requests are finished by the worker that handled them, or here when they are
 * refused; all other types are done when they are read.
 */
final class Dispatch {
    private static final Log LOG = new Log("speed.protocol");

    private final Context context;
    private final Links links;
    private final Calls calls;
    private final Serving serving;
    private final Delivery delivery;
    private final Introspection introspection;
    private final Replies replies;
    private final Parts parts;
    private final Consumer<String> left;
    private final DeadLetterBox letters;
    private final LogLimiter lines = new LogLimiter();

    @GuardedBy("this")
    private Segments segments;

    Dispatch(Parts parts, DeadLetterBox letters, Consumer<String> left) {
        this.parts = parts;
        this.letters = letters;
        context = parts.context();
        links = parts.links();
        calls = parts.calls();
        serving = parts.serving();
        delivery = parts.delivery();
        introspection = parts.introspection();
        replies = new Replies(context, links);
        this.left = left;
    }

    /** Whether a lane is to be read: a published grant covers its sender, or it owes this node an answer. */
    boolean mayRead(String source) {
        return context.policy.publishes(source) || links.knows(source);
    }

    /** Handles one authentic envelope; WireException for a payload that breaks a rule. */
    void dispatch(Lane lane, Received received) {
        Header header = received.header();
        if (context.peers != null && !isKnown(lane, received)) {
            return;
        }
        if (!header.has(EnvelopeType.REPLY) && !context.policy.allows(lane.source()) && !isLook(lane, received)) {
            refuseUnauthorised(lane, received);
        } else if (header.has(EnvelopeType.SEGMENT)) {
            segments().accept(lane, received);
        } else {
            handle(lane, received);
        }
    }

    /** Whether it is what an observer may write without a grant: a ping, or a question for figures. */
    private boolean isLook(Lane lane, Received received) {
        Header header = received.header();
        if (!context.policy.observes(lane.source()) || header.has(EnvelopeType.SEGMENT)) {
            return false;
        }
        boolean isQuestion = header.type() == EnvelopeType.DISCOVERY;
        return Control.isLook(header.type(), isQuestion ? Control.decode(received.payload()) : Map.of());
    }

    /** Whether it comes of the identity that its sender is to have, or is discarded; answers too. */
    private boolean isKnown(Lane lane, Received received) {
        String source = lane.source();
        boolean mayWrite = context.policy.allows(source) || context.policy.observes(source);
        if (!mayWrite && !links.knows(source)) {
            return true; // it has no grant, which it is told; nothing is remembered of it
        }
        Verdict verdict = context.peers.verdict(source, received.identity(), mayWrite);
        if (verdict == Verdict.ACCEPTED) {
            return true;
        }
        context.stats.count(Counters.UNAUTHORISED);
        context.stats.refusedSender(source);
        lines.warn(
                LOG,
                "an envelope of {} is discarded: its identity is {}",
                source,
                verdict.name().toLowerCase(Locale.ROOT));
        lane.drop(received.token());
        return false;
    }

    private void handle(Lane lane, Received received) {
        byte[] payload = received.payload();
        switch (received.header().type()) {
            case MESSAGE, EVENT -> message(lane, received);
            case SPC_REQUEST -> serving.accept(lane, received);
            case SPC_RESPONSE -> {
                if (SpcResponse.saysReplaced(payload)) {
                    left.accept(lane.source()); // its calls are settled once all that it answered is read
                } else {
                    calls.answered(lane.source(), payload);
                }
            }
            case ACK -> calls.acknowledged(lane.source(), Control.sequence(Control.decode(payload)));
            case STREAM -> stream(lane.source(), received);
            case ERROR -> calls.refused(lane.source(), Control.decode(payload));
            case HEARTBEAT -> heartbeat(lane.source(), received);
            case DISCOVERY -> discovery(lane.source(), received);
            default -> throw new AssertionError(received.header().type());
        }
    }

    private void stream(String source, Received received) {
        boolean isOfServer = received.header().has(EnvelopeType.REPLY);
        boolean isExpected = isOfServer
                ? parts.streams().arrive(source, received.payload())
                : serving.arrive(source, received.payload());
        if (!isExpected) {
            context.stats.count(Counters.STREAM_ENVELOPES_UNEXPECTED);
        }
    }

    /** Discarded; only a request is told, since its caller waits. */
    private void refuseUnauthorised(Lane lane, Received received) {
        boolean isRequest = received.header().type() == EnvelopeType.SPC_REQUEST;
        if (isRequest && !received.header().has(EnvelopeType.SEGMENT) && serving.refusedForAnother(lane, received)) {
            return;
        }
        context.stats.count(Counters.UNAUTHORISED);
        context.stats.refusedSender(lane.source());
        if (isRequest) {
            lane.finish(List.of(received.token())); // before its caller is told that it was not begun
            serving.refuse(lane, received);
        } else {
            lane.drop(received.token());
        }
    }

    private void message(Lane lane, Received received) {
        message(lane, received, Arrival.Content.of(received.payload()));
    }

    private void message(Lane lane, Received received, Arrival.Content content) {
        if (!lane.isDeadLetter() && content.view().isExpired(System.currentTimeMillis())) {
            context.stats.count(Counters.MESSAGES_EXPIRED);
            lane.drop(received.token());
            if (received.header().has(EnvelopeType.ACK_REQUESTED)) {
                replies.refuse(
                        lane.source(),
                        received.header().sequence(),
                        "EXECUTION_FAILED",
                        "the message expired before it was handled");
            }
            return;
        }
        delivery.arrive(new Arrival(delivery, replies, lane, received, content, null), lane.source());
    }

    private void heartbeat(String source, Received received) {
        Map<Object, Object> body = Control.decode(received.payload());
        if (received.header().has(EnvelopeType.REPLY)) {
            calls.replied(source, body);
        } else {
            replies.send(source, received.header().generation(), EnvelopeType.HEARTBEAT, received.payload());
        }
    }

    private void discovery(String source, Received received) {
        if (received.header().has(EnvelopeType.REPLY)) {
            calls.replied(source, Control.decode(received.payload(), Limits.MAX_DISCOVERY_BYTES));
            return;
        }
        Map<Object, Object> body = Control.decode(received.payload());
        String operation = String.valueOf(body.get("op"));
        switch (operation) {
            case "LEAVE" -> {
                calls.leftInOrder(source, received.header().generation());
                left.accept(source);
            }
            case "WITHDRAW" -> {
                List<String> ids = Control.requestIds(body);
                afterRequests(source, () -> serving.withdraw(source, ids));
            }
            default ->
                answer(
                        source,
                        received.header(),
                        operation,
                        body.get("requestId"),
                        introspection.answer(operation, source));
        }
    }

    /** What names requests overtakes none that is still put together. */
    private void afterRequests(String source, Runnable task) {
        Segments known = segmentsIfAny();
        if (known == null) {
            task.run();
        } else {
            known.afterRequests(source, task);
        }
    }

    private void answer(String source, Header header, String operation, Object requestId, Map<String, Object> result) {
        Map<String, Object> reply = new LinkedHashMap<>();
        if (result == null) {
            reply.put("errorCode", "INVALID_ARGUMENTS");
            reply.put("errorMessage", "unknown DISCOVERY operation");
            reply.put("requestId", requestId);
            replies.send(source, header.generation(), EnvelopeType.ERROR, Control.encode(reply));
            return;
        }
        reply.put("op", operation);
        reply.put("requestId", requestId);
        reply.put("result", result);
        replies.send(source, header.generation(), EnvelopeType.DISCOVERY, Control.encode(reply));
    }

    // --- segments ---

    /** What receives segments, made when the first one comes, or an earlier process left some. */
    synchronized Segments segments() {
        if (segments == null) {
            segments = new Segments(context, parts.pool(), parts.futures(), new Assembled(), replies::refuse);
        }
        return segments;
    }

    private synchronized Segments segmentsIfAny() {
        return segments;
    }

    /** What was put together from segments goes the way of what came whole. */
    private final class Assembled implements Segments.Delivery {
        @Override
        public void whole(Lane lane, Received received) {
            handle(lane, received);
        }

        @Override
        public void message(Lane lane, Received received, Arrival.Assembly assembly, Object order) {
            delivery.arrive(new Arrival(delivery, replies, lane, received, null, assembly), order);
        }

        @Override
        public void acknowledge(String source, Received received) {
            replies.acknowledge(source, received, false);
        }
    }

    // --- time ---

    /** Has dead letters tried again that somebody asked for; at each scan. */
    void lookAtLetters() {
        if (letters.hasSome()) {
            parts.pool()
                    .submit(() -> letters.look((lane, received, content) -> delivery.arrive(
                            new Arrival(delivery, replies, lane, received, content, null), lane.source())));
        }
    }

    /** Lets go of what was kept. */
    void close() {
        if (segmentsIfAny() != null) {
            segments().close();
        }
    }

    /** A node is gone or was replaced, and all that it sent is read: settles those of the calls to it that are given. */
    void settle(String name, List<PendingCalls.Call> waiting) {
        Entry live = context.registry.surelyLive(name);
        if (live == null) {
            serving.forget(name); // at once: what a successor asks comes after the look
        }
        calls.settle(name, waiting, live);
    }

    void expire(long now) {
        calls.expire(now);
        Scheduler.Overdue<Job> overdue = parts.pool().expire(now);
        overdue.waiting().forEach(work -> serving.expireWaiting((AcceptedRequest) work.item));
        overdue.running().forEach(work -> serving.expireRunning((AcceptedRequest) work.item));
        overdue.unclaimed().forEach(work -> delivery.unclaimed((Arrival) work.item));
        parts.futures().look(now);
        if (segmentsIfAny() != null) {
            segments().expire();
        }
    }

    /** Monotonic time of the next thing that {@link #expire} has to do. */
    long nextDeadline() {
        long deadline = Math.min(context.pending.nextDeadline(), parts.pool().nextTime());
        deadline = Math.min(deadline, calls.nextSettling());
        return Math.min(deadline, parts.futures().look(System.nanoTime()));
    }

    /** The parts of one running node that know of each other. */
    record Parts(
            Context context,
            Links links,
            Calls calls,
            CallStreams streams,
            Serving serving,
            Delivery delivery,
            Introspection introspection,
            WorkerPool pool,
            Futures futures) {}
}
