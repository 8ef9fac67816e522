package speed.runtime;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import speed.LargePayload;
import speed.Message;
import speed.core.Token;
import speed.errors.SpeedException;
import speed.fs.Received;
import speed.wire.Control;
import speed.wire.EnvelopeType;
import speed.wire.Header;
import speed.wire.MessageView;
import speed.wire.Sequence;

/**
 * From an opened envelope to the part that handles it: one switch over the eight types (W-4, S-11). Runs under the
 * protocol role. Messages, events and requests are finished by the worker that handled them, or here when they are
 * refused; all other types are done when they are read.
 */
final class Dispatch {
    private final Context context;
    private final Links links;
    private final Calls calls;
    private final Serving serving;
    private final Delivery delivery;
    private final Introspection introspection;
    private final WorkerPool pool;
    private final Consumer<String> left;
    private Segments segments;

    Dispatch(Parts parts, Consumer<String> left) {
        context = parts.context();
        links = parts.links();
        calls = parts.calls();
        serving = parts.serving();
        delivery = parts.delivery();
        introspection = parts.introspection();
        pool = parts.pool();
        this.left = left;
    }

    /** Whether a lane is to be read: a published grant covers its sender, or it owes this node an answer (L-21). */
    boolean mayRead(String source) {
        return context.policy.publishes(source) || links.knows(source);
    }

    /** Handles one authentic envelope; WireException for a payload that breaks a rule. */
    void dispatch(Lane lane, Received received) {
        Header header = received.header();
        if (!header.has(EnvelopeType.REPLY) && !context.policy.allows(lane.source())) {
            refuseUnauthorised(lane, received);
        } else if (header.has(EnvelopeType.SEGMENT)) {
            segments().accept(lane, received);
        } else {
            handle(lane, received);
        }
    }

    private void handle(Lane lane, Received received) {
        byte[] payload = received.payload();
        switch (received.header().type()) {
            case MESSAGE, EVENT -> message(lane, received);
            case SPC_REQUEST -> serving.accept(lane, received.token(), payload);
            case SPC_RESPONSE -> calls.answered(lane.source(), payload);
            case ACK -> calls.acknowledged(lane.source(), Control.sequence(Control.decode(payload)));
            case ERROR -> calls.refused(lane.source(), Control.decode(payload));
            case HEARTBEAT -> heartbeat(lane.source(), received);
            case DISCOVERY -> discovery(lane.source(), received);
            default -> throw new AssertionError(received.header().type());
        }
    }

    /** Discarded; only a request is told, since its caller waits. */
    private void refuseUnauthorised(Lane lane, Received received) {
        context.stats.count("unauthorised");
        lane.drop(received.token());
        if (received.header().type() == EnvelopeType.SPC_REQUEST) {
            serving.refuse(lane.source(), received.header().generation(), received.payload());
        }
    }

    private void message(Lane lane, Received received) {
        message(lane, received, MessageView.of(received.payload()), null);
    }

    private void message(Lane lane, Received received, MessageView view, LargePayload large) {
        Header header = received.header();
        Token token = received.token();
        boolean isEvent = header.type() == EnvelopeType.EVENT;
        if (view.isExpired(System.currentTimeMillis())) {
            context.stats.count("messages_expired");
            lane.drop(token);
            if (header.has(EnvelopeType.ACK_REQUESTED)) {
                refuse(lane.source(), header, "EXECUTION_FAILED", "the message expired before it was handled");
            }
            return;
        }
        Message message = new Message(view, large, lane.source(), header.sequence(), received.redelivered(),
                () -> lane.finish(List.of(token))); // before the next is begun: one redelivery a crash (L-15)
        context.stats.count("messages_received");
        delivery.arrive(!header.has(EnvelopeType.ACK_REQUESTED) ? Arrival.silent(message, isEvent, lane, token)
                : new Arrival(message, isEvent, lane, token, () -> acknowledge(lane.source(), header),
                        (code, text) -> refuse(lane.source(), header, code, text)));
    }

    private void acknowledge(String source, Header header) {
        reply(source, header, EnvelopeType.ACK, Control.encodeAck(header.sequence()));
    }

    private void refuse(String source, Header header, String code, String text) {
        refuse(source, header.sequence(), code, text);
    }

    private void refuse(String source, long sequence, String code, String text) {
        reply(source, Sequence.generation(sequence), EnvelopeType.ERROR, Control.encodeError(code, text, sequence));
    }

    private void reply(String source, Header header, EnvelopeType type, byte[] payload) {
        reply(source, header.generation(), type, payload);
    }

    /** Answers without waiting: a sender that left or does not read loses it, counted. */
    private void reply(String source, int generation, EnvelopeType type, byte[] payload) {
        try {
            links.open(source, generation)
                    .send(OutgoingLink.Load.urgent(type, EnvelopeType.REPLY, List.of(payload)));
        } catch (SpeedException undelivered) {
            context.stats.count("replies_undelivered");
        }
    }

    private void heartbeat(String source, Received received) {
        Map<Object, Object> body = Control.decode(received.payload());
        if (received.header().has(EnvelopeType.REPLY)) {
            calls.replied(source, body);
        } else {
            reply(source, received.header(), EnvelopeType.HEARTBEAT, received.payload());
        }
    }

    private void discovery(String source, Received received) {
        Map<Object, Object> body = Control.decode(received.payload());
        String operation = String.valueOf(body.get("op"));
        if (received.header().has(EnvelopeType.REPLY)) {
            calls.replied(source, body);
        } else if (operation.equals("LEAVE")) {
            left.accept(source);
        } else {
            answer(source, received.header(), operation, body.get("requestId"));
        }
    }

    private void answer(String source, Header header, String operation, Object requestId) {
        Map<String, Object> result = introspection.answer(operation, source);
        if (result == null) {
            Map<String, Object> refusal = new LinkedHashMap<>();
            refusal.put("errorCode", "INVALID_ARGUMENTS");
            refusal.put("errorMessage", "unknown DISCOVERY operation");
            refusal.put("requestId", requestId);
            reply(source, header, EnvelopeType.ERROR, Control.encode(refusal));
            return;
        }
        Map<String, Object> reply = new LinkedHashMap<>();
        reply.put("op", operation);
        reply.put("requestId", requestId);
        reply.put("result", result);
        reply(source, header, EnvelopeType.DISCOVERY, Control.encode(reply));
    }

    // --- segments ---

    /** What receives segments, made when the first one comes, or an earlier process left some. */
    synchronized Segments segments() {
        if (segments == null) {
            segments = new Segments(context, pool, new Assembled(), this::refuse);
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
        public void large(Lane lane, Received received, MessageView view, LargePayload payload) {
            message(lane, received, view, payload);
        }

        @Override
        public void acknowledge(String source, Header header) {
            Dispatch.this.acknowledge(source, header);
        }
    }

    /** Lets go of what was kept. */
    void close() {
        if (segmentsIfAny() != null) {
            segments().close();
        }
    }

    void nodeDied(String name) {
        calls.nodeLeft(name);
    }

    void expire(long now) {
        calls.expire(now);
        serving.expire(now);
        if (segmentsIfAny() != null) {
            segments().expire();
        }
    }

    /** Monotonic time of the next thing that {@link #expire} has to do. */
    long nextDeadline() {
        return Math.min(context.pending.nextDeadline(), serving.nextDeadline());
    }
}
