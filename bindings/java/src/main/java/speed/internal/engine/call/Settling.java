package speed.internal.engine.call;

import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import java.util.stream.Stream;
import speed.errors.Execution;
import speed.errors.NodeLeftException;
import speed.errors.SpeedException;
import speed.internal.core.CallErrors;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.Texts;
import speed.internal.core.Verdict;
import speed.internal.engine.Context;
import speed.internal.fs.Settlement;
import speed.internal.wire.Entry;
import speed.internal.wire.Limits;

/**
 * Calls whose server is gone or was replaced. What the server committed tells whether they began, and that is final. What did not
 * begin, or may run twice, is sent again to the successor while its program waits. Thread-safe where it says so; the
 * rest is for the thread that reads.
 */
final class Settling {
    private static final long SUCCESSOR_NANOS = (long) (Limits.SUCCESSOR_SECONDS * 1e9);
    /** Pause between two looks for what decides, or for a successor. */
    private static final long LOOK_NANOS = 20_000_000;

    private final Context context;
    private final BiConsumer<RequestCall, Verdict> sendAgain;
    private final AtomicLong keptBytes = new AtomicLong();
    /** The newest generation of a node that sent a leave notice. */
    private final Map<String, Integer> leavers = new ConcurrentHashMap<>();

    private final Map<RequestCall, Boolean> waiting = new ConcurrentHashMap<>();
    private long nextLook = Long.MAX_VALUE;

    /** Settles calls; {@code sendAgain} is told of those that go to a successor, and must not wait. */
    Settling(Context context, BiConsumer<RequestCall, Verdict> sendAgain) {
        this.context = context;
        this.sendAgain = sendAgain;
    }

    /** Keeps a request for being sent again, if there is room. Thread-safe. */
    void keep(RequestCall call, byte[] payload) {
        if (keptBytes.addAndGet(payload.length) <= Limits.MAX_KEPT_REQUEST_BYTES) {
            call.keep(payload);
        } else {
            keptBytes.addAndGet(-payload.length);
        }
    }

    /** A call ended. Thread-safe. */
    void release(RequestCall call) {
        byte[] payload = call.kept();
        if (payload != null) {
            call.keep(null);
            keptBytes.addAndGet(-payload.length);
        }
    }

    /** A leave notice came from a generation of a node. */
    void leftInOrder(String name, int generation) {
        if (context.pending.isWaitingFor(name)) {
            leavers.merge(name, generation, Math::max);
        }
    }

    /** Whether some call was written to an earlier generation of a node than this. Thread-safe. */
    boolean hasOlder(String name, int generation) {
        return context.pending.to(name).stream()
                .anyMatch(call -> call instanceof RequestCall request
                        && request.sent() != null
                        && request.sent().generation() < generation);
    }

    /**
     * Settles calls to a node whose answers are read to the end.
     *
     * @param live its entry; null if it is gone
     */
    void settle(List<Call> some, Entry live) {
        inOrder(some.stream().filter(RequestCall.class::isInstance).map(RequestCall.class::cast))
                .forEach(request -> settle(request, live, System.nanoTime()));
        if (!context.pending.isWaitingFor(some.isEmpty() ? "" : some.get(0).target())) {
            some.forEach(call -> leavers.remove(call.target()));
        }
    }

    /** Looks once more after those that wait for what decides, or for a successor. */
    void look(long now) {
        if (now < nextLook) {
            return;
        }
        nextLook = Long.MAX_VALUE;
        List<RequestCall> due = List.copyOf(waiting.keySet());
        due.forEach(waiting::remove);
        inOrder(due.stream()).forEach(request -> settle(request, context.registry.surelyLive(request.target()), now));
    }

    /** Those that still wait, in the order in which they were made: what is sent again begins in it. */
    private List<RequestCall> inOrder(Stream<RequestCall> requests) {
        return requests.filter(request -> context.pending.isOpen(request.key()))
                .sorted(Comparator.comparingLong(request -> request.number))
                .toList();
    }

    /** Monotonic time of the next look. */
    long nextLook() {
        return nextLook;
    }

    /** How a call ended whose deadline passed before anybody noticed that its server is gone; null if that is there. */
    SpeedException overdue(RequestCall request) {
        RequestCall.Sent sent = request.sent();
        if (sent == null || !hasEnded(request.target(), sent)) {
            return null;
        }
        return left(request, verdict(request.target(), sent));
    }

    private void settle(RequestCall request, Entry live, long now) {
        RequestCall.Sent sent = request.sent();
        if (sent == null || live != null && live.generation() <= sent.generation()) {
            return; // being written, or its server lives
        }
        Verdict verdict = verdict(request.target(), sent);
        if (verdict == Verdict.NOT_BEGUN && request.isWithdrawn()) {
            end(
                    request,
                    CallErrors.of(
                            "WITHDRAWN",
                            "'" + request.target() + "' left before it began; the call was withdrawn",
                            Map.of("phase", "queued")));
        } else if (isToBeWaitedFor(request, verdict, live, now)) {
            waiting.put(request, true);
            nextLook = Math.min(nextLook, now + LOOK_NANOS);
        } else if (isToBeSent(request, verdict, now) && serves(live)) {
            request.waitsUntil = 0;
            request.unsend();
            sendAgain.accept(request, verdict);
        } else {
            fail(request, verdict);
        }
    }

    private Verdict verdict(String target, RequestCall.Sent sent) {
        Settlement lane = new Settlement(context.options.root(), context.name(), target, context.registry.keyring());
        return lane.verdict(sent.generation(), sent.sequences(), sent.needed(), () -> hasEnded(target, sent));
    }

    private boolean hasEnded(String target, RequestCall.Sent sent) {
        return leavers.getOrDefault(target, 0) >= sent.generation()
                || context.registry.isOver(target, sent.generation(), sent.process());
    }

    private boolean isToBeWaitedFor(RequestCall request, Verdict verdict, Entry live, long now) {
        if (request.waitsUntil == 0) {
            request.waitsUntil = now + SUCCESSOR_NANOS;
        }
        boolean inTime = now < request.waitsUntil;
        if (verdict == null) {
            return live != null && inTime;
        }
        boolean isStarting = live != null && live.isStarting();
        return isToBeSent(request, verdict, now) && (isStarting || !serves(live) && inTime);
    }

    private boolean serves(Entry live) {
        return live != null && context.isGrantedBy(live);
    }

    private static boolean isToBeSent(RequestCall request, Verdict verdict, long now) {
        boolean mayRun = verdict == Verdict.NOT_BEGUN || verdict == Verdict.REPEATABLE;
        return mayRun && request.kept() != null && !request.isWithdrawn() && now < request.programDeadline;
    }

    /** Ends a call that no generation of its server answers; null where nothing decided. Thread-safe. */
    void fail(RequestCall request, Verdict verdict) {
        end(request, left(request, verdict));
    }

    private static SpeedException left(RequestCall request, Verdict verdict) {
        boolean isUnbegun = verdict == Verdict.NOT_BEGUN;
        SpeedException error = new NodeLeftException(
                isUnbegun ? Texts.leftNotBegun(request.target()) : Texts.leftInDoubt(request.target()));
        error.about(isUnbegun ? Execution.NOT_BEGUN : Execution.MAY_HAVE_RUN);
        return error;
    }

    private void end(RequestCall request, SpeedException error) {
        context.pending.complete(request.key(), request.target(), Outcome.failed(error));
    }
}
