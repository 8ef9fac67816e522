package speed.internal.core;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import speed.errors.SpeedException;

/**
 * Calls and acknowledgements that wait for an answer: each is completed exactly once. Thread-safe:
 * whoever takes a call out of the table completes it.
 */
public final class PendingCalls {
    private static final long NEVER = Long.MAX_VALUE;
    private static final long RESCAN_NANOS = 1_000_000_000;

    /** What a call waits under: a request id, or the sequence of an envelope to one target. */
    public sealed interface Key permits RequestKey, SequenceKey {}

    public record RequestKey(String requestId) implements Key {}

    public record SequenceKey(String target, long sequence) implements Key {}

    /**
     * The answer to a call.
     *
     * @param error null for an answer, else why there is none
     */
    public record Outcome(Object result, SpeedException error) {
        public static Outcome of(Object result) {
            return new Outcome(result, null);
        }

        public static Outcome failed(SpeedException error) {
            return new Outcome(null, error);
        }
    }

    /** One waiting caller. */
    public static class Call {
        private final Key key;
        private final long deadlineNanos;
        private final String target;
        private final Consumer<Outcome> completion;

        /**
         * A caller that waits.
         *
         * @param deadlineNanos monotonic
         * @param completion must not block
         */
        public Call(Key key, long deadlineNanos, String target, Consumer<Outcome> completion) {
            this.key = key;
            this.deadlineNanos = deadlineNanos;
            this.target = target;
            this.completion = completion;
        }

        public final Key key() {
            return key;
        }

        public final long deadlineNanos() {
            return deadlineNanos;
        }

        public final String target() {
            return target;
        }

        public final Consumer<Outcome> completion() {
            return completion;
        }
    }

    private final Map<Key, Call> calls = new ConcurrentHashMap<>();
    private volatile long earliest = NEVER;
    private volatile Supplier<SpeedException> refusal;
    private long scanned;

    /** Waits for a key; once all calls were ended, throws why, and the call is not completed. */
    public void add(Call call) {
        calls.put(call.key, call);
        if (refusal != null && calls.remove(call.key, call)) {
            throw refusal.get();
        }
        if (call.deadlineNanos < earliest) {
            earliest = call.deadlineNanos;
        }
    }

    /** Hands the outcome to the caller that asked this node; false when nobody waits for it. */
    public boolean complete(Key key, String source, Outcome outcome) {
        Call call = calls.get(key);
        return call != null && call.target.equals(source) && end(call, outcome);
    }

    private boolean end(Call call, Outcome outcome) {
        boolean mine = calls.remove(call.key, call);
        if (mine) {
            call.completion.accept(outcome);
        }
        return mine;
    }

    /** The call that waits under a key; null if none does. */
    public Call get(Key key) {
        return calls.get(key);
    }

    /** Whether somebody waits under a key. */
    public boolean isOpen(Key key) {
        return calls.containsKey(key);
    }

    /** Stops waiting without completing. */
    public void forget(Key key) {
        calls.remove(key);
    }

    /** Takes out the calls whose deadline has passed; the caller of this method completes them. */
    public List<Call> expire(long now) {
        if (now < Math.min(earliest, scanned + RESCAN_NANOS)) {
            return List.of();
        }
        earliest = NEVER; // a call that is added from here on lowers it again
        scanned = now;
        List<Call> late = new ArrayList<>();
        long next = NEVER;
        for (Call call : calls.values()) {
            if (call.deadlineNanos > now) {
                next = Math.min(next, call.deadlineNanos);
            } else if (calls.remove(call.key, call)) {
                late.add(call);
            }
        }
        earliest = Math.min(earliest, next);
        return late;
    }

    /** The calls to a node that wait now. */
    public List<Call> to(String target) {
        return calls.values().stream()
                .filter(call -> call.target.equals(target))
                .toList();
    }

    /** Ends those of some calls that still wait. */
    public void fail(List<Call> some, Supplier<SpeedException> error) {
        some.forEach(call -> end(call, Outcome.failed(error.get())));
    }

    /** Ends every call, and refuses those that come later: the node stops. */
    public void failAll(Supplier<SpeedException> error) {
        refusal = error;
        fail(List.copyOf(calls.values()), error);
    }

    /** Nodes that somebody waits for. */
    public Set<String> targets() {
        Set<String> targets = new HashSet<>();
        calls.values().forEach(call -> targets.add(call.target));
        return targets;
    }

    /** Whether somebody waits for a node. */
    public boolean isWaitingFor(String target) {
        return calls.values().stream().anyMatch(call -> call.target.equals(target));
    }

    /** A time not after the earliest deadline. */
    public long nextDeadline() {
        return calls.isEmpty() ? NEVER : earliest;
    }

    /** How many callers wait. */
    public int size() {
        return calls.size();
    }

    public boolean isEmpty() {
        return calls.isEmpty();
    }
}
