package speed.internal.engine.call;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import speed.errors.CallTimeoutException;
import speed.errors.ConfigurationException;
import speed.errors.Execution;
import speed.errors.NodeLeftException;
import speed.errors.NotAcknowledgedException;
import speed.errors.SegmentsLostException;
import speed.errors.SpeedException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.Key;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.PendingCalls.RequestKey;
import speed.internal.core.PendingCalls.SequenceKey;
import speed.internal.core.Texts;
import speed.internal.core.Verdict;
import speed.internal.engine.Context;
import speed.internal.engine.Context.Trace;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.engine.threads.AnswerFuture;
import speed.internal.engine.threads.Futures;
import speed.internal.engine.threads.Waiter;
import speed.internal.engine.threads.Waiter.FirstAnswer;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.fs.Posix;
import speed.internal.fs.ThisProcess;
import speed.internal.wire.Control;
import speed.internal.wire.Entry;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Printable;
import speed.internal.wire.Require;
import speed.internal.wire.SpcRequest;
import speed.internal.wire.SpcResponse;
import speed.internal.wire.StreamOffer;

/**
 * The caller's side: calls, pings, questions and acknowledgements that wait for an answer.
 * Thread-safe.
 *
 * <p>A request is entered into the table before it is written, so no answer can come too early. It ends exactly once:
 * by the answer, by its deadline, because the other node left, or because this node stops.
 */
public final class Calls {
    /** How long after the deadline the caller still waits for the server's own verdict. */
    private static final long GRACE_NANOS = 250_000_000;

    private static final Log LOG = new Log("speed.segments");
    private static final Log MESSAGES = new Log("speed.messages");
    /** What a journal answers to events that it does not record. */
    private static final Set<String> UNRECORDED = Set.of("JOURNAL_FULL", "JOURNAL_REFUSED");

    private final Context context;
    private final Links links;
    private final WorkerPool pool;
    private final Futures futures;
    private final Withdrawals withdrawals;
    private final Settling settling;
    /** What is to be sent again, by target, in its order; a queue that is not empty is being worked off. */
    private final Map<String, Queue<Runnable>> again = new ConcurrentHashMap<>();

    private final AtomicLong numbers = new AtomicLong();
    private final String prefix;
    private final LogLimiter lines = new LogLimiter();

    public Calls(Context context, Links links, WorkerPool pool, Futures futures) {
        this.context = context;
        this.links = links;
        this.pool = pool;
        this.futures = futures;
        withdrawals = new Withdrawals(context, links);
        settling = new Settling(context, this::sendInOrder);
        prefix = Integer.toHexString(context.generation) + ".";
    }

    /**
     * What a service is asked.
     *
     * @param trace W3C trace context; null takes that of the work at hand
     * @param offer what travels beside the call; null for nothing
     */
    public record Asked(
            String target,
            String service,
            Map<String, Object> arguments,
            Duration timeout,
            String trace,
            StreamOffer offer) {
        /** Whichever thread asks later: under the trace context of this one. */
        public static Asked now(
                String target, String service, Map<String, Object> arguments, Duration timeout, String trace) {
            return new Asked(target, service, arguments, timeout, Trace.orCurrent(trace), null);
        }

        Asked to(String another) {
            return new Asked(another, service, arguments, timeout, trace, offer);
        }

        Asked within(Duration another) {
            return new Asked(target, service, arguments, another, trace, offer);
        }

        Asked beside(StreamOffer another) {
            return new Asked(target, service, arguments, timeout, trace, another);
        }

        /** Whether items travel, so that it is never sent again (S-27). */
        boolean isStream() {
            return offer != null && offer.isStream();
        }
    }

    /** Calls a service and waits for its result. An interrupt meanwhile withdraws the call. */
    public Object call(
            String target,
            String service,
            Map<String, Object> arguments,
            Duration timeout,
            String trace,
            boolean views) {
        try (Waiter waiter = new Waiter(pool)) {
            String requestId = nextId();
            start(requestId, new Asked(target, service, arguments, timeout, trace, null), waiter);
            return read(waiter.await(() -> withdraw(target, requestId)), views);
        } catch (SpeedException failure) {
            failure.about(target, service);
            throw failure;
        }
    }

    /** Starts a call; calls start in the order in which this returns. */
    public CompletableFuture<Object> submit(
            String target, String service, Map<String, Object> arguments, Duration timeout, String trace) {
        return submit(
                target, service, arguments, timeout, trace, new Invocation(target, service, UnaryOperator.identity()));
    }

    /** What a program asked for: who was called, and how its result is made of the answer. */
    public record Invocation(String node, String service, UnaryOperator<Object> reading) {}

    /** Starts a call that stands for what was asked. */
    public CompletableFuture<Object> submit(
            String target,
            String service,
            Map<String, Object> arguments,
            Duration timeout,
            String trace,
            Invocation invocation) {
        String requestId = nextId();
        CallFuture future = new CallFuture(target, requestId, invocation);
        Asked asked = new Asked(target, service, arguments, timeout, trace, null);
        start(requestId, asked, future::arrive);
        return future;
    }

    /** A call that is under way; its request is written. */
    private final class CallFuture extends AnswerFuture {
        private final String target;
        private final String requestId;
        private final Invocation invocation;

        CallFuture(String target, String requestId, Invocation invocation) {
            super(futures);
            this.target = target;
            this.requestId = requestId;
            this.invocation = invocation;
        }

        /** Withdraws the call: it ends as its server says, so this is never the end of it. */
        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            if (!isDone() && context.pending.isOpen(new RequestKey(requestId))) {
                noteWithdrawn(target, requestId);
                futures.add(() -> withdrawals.send(target));
            }
            return isCancelled();
        }

        @Override
        protected void end(Outcome outcome) {
            try {
                complete(invocation.reading.apply(read(outcome, false)));
            } catch (SpeedException failure) {
                failure.about(invocation.node, invocation.service);
                completeExceptionally(failure);
            }
        }
    }

    /** Nobody waits for a call any more, and its server is told. */
    void withdraw(String target, String requestId) {
        noteWithdrawn(target, requestId);
        withdrawals.send(target);
    }

    private void noteWithdrawn(String target, String requestId) {
        if (context.pending.get(new RequestKey(requestId)) instanceof RequestCall request) {
            request.withdraw();
        }
        withdrawals.add(target, requestId);
    }

    /** Sends a request; {@code completion} runs once, unless this throws: then nothing began. */
    void start(String requestId, Asked asked, Consumer<Outcome> completion) {
        try {
            String target = asked.target;
            long deadline = System.nanoTime() + asked.timeout.toNanos();
            OutgoingLink link = links.serving(target, Math.min(deadline, System.nanoTime() + startNanos(asked)));
            StreamOffer offer = offered(asked);
            OutgoingLink.Life life = link.life(); // before it is written: by then another may be there
            long milliseconds = Math.max(0, (deadline - System.nanoTime()) / 1_000_000);
            byte[] payload = new SpcRequest(
                            requestId,
                            asked.service,
                            asked.arguments,
                            context.name(),
                            life.generation(),
                            System.currentTimeMillis() + milliseconds,
                            ThisProcess.bootId(),
                            Posix.bootMs() + milliseconds,
                            Trace.orCurrent(asked.trace),
                            false,
                            offer)
                    .encode();
            RequestCall[] itself = new RequestCall[1];
            RequestCall call = new RequestCall(requestId, deadline, GRACE_NANOS, target, outcome -> {
                settling.release(itself[0]);
                completion.accept(itself[0].isRepeated() ? ofRepetition(outcome) : outcome);
            });
            itself[0] = call;
            if (!asked.isStream()) {
                settling.keep(call, payload);
            }
            track(call);
            try {
                write(call, link, life, payload);
            } catch (RuntimeException | Error failure) {
                forget(call.key());
                settling.release(call);
                throw failure;
            }
        } catch (SpeedException failure) {
            if (failure.execution() == null) {
                failure.about(Execution.NOT_BEGUN);
            }
            throw failure;
        }
    }

    /** How long a node that is starting is waited for: no longer for a stream, which may have no deadline. */
    private static long startNanos(Asked asked) {
        Duration most = asked.isStream() ? Require.CALL_TIMEOUT : asked.timeout;
        return most.toNanos();
    }

    /** What is asked for beside a call, of a node that knows it; others tell no progress, and have no streams. */
    private StreamOffer offered(Asked asked) {
        Entry entry = asked.offer == null ? null : context.registry.live(asked.target);
        if (entry == null || entry.has(Entry.STREAMS)) {
            return asked.offer;
        }
        if (asked.isStream()) {
            throw new ConfigurationException("'" + asked.target
                    + "' runs a version that knows no streams: call services of it that return lists");
        }
        return null;
    }

    /** What ends the repetition of a call does not say that it never began. */
    private static Outcome ofRepetition(Outcome outcome) {
        if (outcome.result() instanceof Answer answer) {
            return Outcome.of(new Answer(answer.source(), answer.payload(), true));
        }
        if (outcome.error() != null && outcome.error().execution() == Execution.NOT_BEGUN) {
            outcome.error().about(Execution.MAY_HAVE_RUN);
        }
        return outcome;
    }

    /** Writes a request, perhaps again; a worker's place is given to others while it waits for room. */
    private void write(RequestCall call, OutgoingLink link, OutgoingLink.Life life, byte[] payload) {
        Load load = Load.of(EnvelopeType.SPC_REQUEST, 0, payload, call.programDeadline);
        boolean isCut = link.isCut(load);
        call.writing().forEach(earlier -> forget(new SequenceKey(call.target(), earlier)));
        pool.blocking(() -> link.send(load, sequence -> {
            call.writing(sequence);
            if (isCut) {
                trackSegment(link, load, call.requestId, sequence);
            }
        }));
        call.written(life.generation(), life.process(), link.parityOf(load));
    }

    /** Calls begin in the order in which they were made, also those that are sent again. */
    private void sendInOrder(RequestCall call, Verdict verdict) {
        Queue<Runnable> queue = again.computeIfAbsent(call.target(), any -> new ArrayDeque<>());
        boolean isFirst;
        synchronized (queue) {
            isFirst = queue.isEmpty();
            queue.add(() -> sendAgain(call, verdict));
        }
        if (isFirst) {
            futures.add(() -> sendAll(queue));
        }
    }

    private static void sendAll(Queue<Runnable> queue) {
        for (Runnable next = first(queue); next != null; next = first(queue)) {
            try {
                next.run();
            } finally {
                synchronized (queue) {
                    queue.remove();
                }
            }
        }
    }

    private static Runnable first(Queue<Runnable> queue) {
        synchronized (queue) {
            return queue.peek();
        }
    }

    /** The server that a call was written to is gone, and did not begin it, or it may run twice: its successor gets it. */
    private void sendAgain(RequestCall call, Verdict verdict) {
        byte[] kept = call.kept();
        if (kept == null) {
            return; // it ended meanwhile
        }
        try {
            OutgoingLink link = links.serving(call.target(), call.programDeadline);
            OutgoingLink.Life life = link.life();
            byte[] payload = SpcRequest.readdressed(kept, life.generation(), verdict == Verdict.REPEATABLE);
            if (context.pending.isOpen(call.key())) {
                context.stats.count(Counters.CALLS_SENT_AGAIN);
                if (verdict == Verdict.REPEATABLE) {
                    call.repeat();
                }
                write(call, link, life, payload);
            }
        } catch (SpeedException failure) {
            settling.fail(call, failure.execution() == Execution.MAY_HAVE_RUN ? Verdict.MAY_HAVE_RUN : verdict);
        } catch (RuntimeException | Error odd) {
            LOG.error("a call to {} could not be sent again", call.target(), odd);
            settling.fail(call, Verdict.MAY_HAVE_RUN);
        }
    }

    /** The result of a call, decoded by who waits for it. */
    Object read(Outcome outcome, boolean views) {
        return Answer.read(context, outcome, views);
    }

    /** What answered a call, as it was received. */
    public static byte[] payload(Outcome answer) {
        return ((Answer) answer.result()).payload();
    }

    /** On a link with a segment size an ERROR under any of the request's sequences ends the call. */
    private void trackSegment(OutgoingLink link, Load load, String requestId, long sequence) {
        track(new Call(new SequenceKey(link.target, sequence), load.deadlineNanos(), link.target, outcome -> {
            // that the node left, its request is told by what the lane says
            if (!(outcome.error() instanceof NotAcknowledgedException
                    || outcome.error() instanceof NodeLeftException)) {
                context.pending.complete(new RequestKey(requestId), link.target, outcome);
            }
        }));
    }

    /** Asks a HEARTBEAT or DISCOVERY question and waits for the reply. */
    public Object ask(String target, EnvelopeType type, Map<String, Object> question, Duration timeout) {
        try (Waiter waiter = new Waiter(pool)) {
            long deadline = System.nanoTime() + timeout.toNanos();
            OutgoingLink link =
                    Control.isLook(type, question) ? links.looking(target, deadline) : links.granted(target, deadline);
            beginToAsk(link, question, deadline, waiter, payload -> Load.of(type, 0, payload, deadline));
            Outcome outcome = waiter.await(() -> {});
            if (outcome.error() != null) {
                throw outcome.error();
            }
            return outcome.result();
        }
    }

    private void beginToAsk(
            OutgoingLink link,
            Map<String, Object> question,
            long deadline,
            Consumer<Outcome> completion,
            Function<byte[], Load> load) {
        String requestId = nextId();
        Map<String, Object> body = new LinkedHashMap<>(question);
        body.put("requestId", requestId);
        track(new Call(new RequestKey(requestId), deadline, link.target, completion));
        sendTracked(link, load.apply(Control.encode(body)), requestId);
    }

    private void sendTracked(OutgoingLink link, Load load, String requestId) {
        try {
            pool.blocking(() -> link.isCut(load)
                    ? link.send(load, sequence -> trackSegment(link, load, requestId, sequence))
                    : link.send(load));
        } catch (RuntimeException | Error failure) {
            context.pending.forget(new RequestKey(requestId));
            throw failure;
        }
    }

    /** Sends a message and waits for its acknowledgement; one that is cut is acknowledged once. */
    public void sendAcknowledged(String target, byte[] message, Duration timeout) {
        long deadline = System.nanoTime() + timeout.toNanos();
        OutgoingLink link = links.granted(target, deadline);
        List<SequenceKey> tracked = new ArrayList<>(1);
        try (FirstAnswer answer = oneAnswer()) {
            Load load = Load.of(EnvelopeType.MESSAGE, EnvelopeType.ACK_REQUESTED, message, deadline);
            pool.blocking(() -> link.send(load, sequence -> {
                SequenceKey key = new SequenceKey(target, sequence);
                tracked.add(key);
                track(new Call(key, deadline, target, answer));
            }));
            answer.await();
        } finally {
            tracked.forEach(this::forget);
        }
    }

    /** A place for the answer to what the calling thread sends. */
    public FirstAnswer oneAnswer() {
        return new FirstAnswer(new Waiter(pool));
    }

    public void forget(Key key) {
        context.pending.forget(key);
    }

    String nextId() {
        return prefix + Long.toHexString(numbers.incrementAndGet());
    }

    /** Enters what waits for an answer, before it can come. */
    public void track(Call call) {
        context.pending.add(call);
        context.wakeBy(call.deadlineNanos());
    }

    // --- what the protocol thread brings ---

    /** Only the node that was asked can answer; what nobody waits for is counted. */
    private void complete(Key key, String source, Outcome outcome) {
        if (!context.pending.complete(key, source, outcome)) {
            unexpected(outcome);
        }
    }

    private void unexpected(Outcome outcome) {
        if (outcome.error() instanceof SegmentsLostException lost) {
            context.stats.count(Counters.PAYLOADS_REPORTED_LOST);
            lines.warn(LOG, "payloads sent in segments were not delivered, the last one: {}", lost.getMessage());
        } else {
            context.stats.count(Counters.ANSWERS_UNEXPECTED);
        }
    }

    /** An SPC_RESPONSE completes the call it belongs to; no more than its id is read here. */
    public void answered(String source, byte[] payload) {
        complete(new RequestKey(SpcResponse.readId(payload)), source, Outcome.of(new Answer(source, payload, false)));
    }

    /** The reply to a HEARTBEAT or DISCOVERY question. */
    public void replied(String source, Map<Object, Object> body) {
        complete(new RequestKey(String.valueOf(body.get("requestId"))), source, Outcome.of(body.get("result")));
    }

    /** An ACK completes the message it names. */
    public void acknowledged(String source, long sequence) {
        complete(new SequenceKey(source, sequence), source, Outcome.of(null));
    }

    /** An ERROR envelope ends the request or message that it names. */
    public void refused(String source, Map<Object, Object> body) {
        Key key = body.get("requestId") instanceof String requestId
                ? new RequestKey(requestId)
                : new SequenceKey(source, Control.sequence(body));
        String code = String.valueOf(body.get("errorCode"));
        Object text = body.getOrDefault("errorMessage", "");
        Outcome outcome = Outcome.failed(Answer.error(source, code, text, Map.of()));
        if (context.pending.complete(key, source, outcome)) {
            return;
        }
        if (UNRECORDED.contains(code)) {
            context.stats.count(Counters.EVENTS_REPORTED_REFUSED);
            lines.warn(
                    MESSAGES, "{} does not record events: {}: {}", source, code, Printable.text(String.valueOf(text)));
        } else {
            unexpected(outcome);
        }
    }

    /** Fails what is over its deadline, and looks after calls whose server is gone. */
    public void expire(long now) {
        settling.look(now);
        for (Call call : context.pending.expire(now)) {
            SpeedException settled = call instanceof RequestCall request ? settling.overdue(request) : null;
            call.completion().accept(Outcome.failed(settled == null ? overdue(call) : settled));
        }
    }

    /** What the deadline of a call, question or acknowledgement means for its caller. */
    private static SpeedException overdue(Call call) {
        if (call.key() instanceof SequenceKey) {
            return new NotAcknowledgedException(Texts.notAcknowledged(call.target()));
        }
        String text = call instanceof RequestCall
                ? Texts.callUnanswered(call.target())
                : Texts.questionUnanswered(call.target());
        return new CallTimeoutException(text, Map.of("phase", "unanswered"));
    }

    /**
     * Settles some calls to a node that is gone or was replaced, whose answers are read to the end.
     *
     * @param live its entry; null if it is gone: then questions and acknowledgements end as well
     */
    public void settle(String name, List<Call> some, Entry live) {
        settling.settle(some, live);
        if (live == null) {
            List<Call> others =
                    some.stream().filter(call -> !(call instanceof RequestCall)).toList();
            context.pending.fail(others, () -> new NodeLeftException(Texts.leftUnanswered(name)));
        }
    }

    /** A leave notice came from a generation of a node: it begins nothing more. */
    public void leftInOrder(String name, int generation) {
        settling.leftInOrder(name, generation);
    }

    /** Whether some call was written to an earlier generation of a node. */
    public boolean hasOlder(String name, int generation) {
        return settling.hasOlder(name, generation);
    }

    /** Monotonic time at which {@link #expire} has to look after calls whose server is gone. */
    public long nextSettling() {
        return settling.nextLook();
    }
}
