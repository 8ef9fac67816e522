package speed.internal.engine.remote;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;
import java.util.function.Function;
import speed.errors.CallTimeoutException;
import speed.errors.ConfigurationException;
import speed.errors.DeliveryException;
import speed.errors.Execution;
import speed.errors.NodeLeftException;
import speed.errors.SpeedException;
import speed.internal.core.Family;
import speed.internal.core.Log;
import speed.internal.engine.Context.Trace;
import speed.internal.engine.LogLimiter;
import speed.internal.wire.MessageDraft;
import speed.options.SendOptions;

/** A family of nodes of this root, {@code pricing.*}: one of them does what it is asked (S-40). Thread-safe. */
final class FamilyPeer implements Peer {
    private static final Log LOG = new Log("speed.families");
    private static final int MOST_DESCRIBED = 64;
    private static final LogLimiter LINES = new LogLimiter();

    private final Families families;
    private final Function<String, Peer> peers;
    private final String name;
    private final String key;

    /**
     * One family.
     *
     * @param peers finds a member by its name
     * @param key what has the same key goes to the same member; null for none
     */
    FamilyPeer(Families families, Function<String, Peer> peers, String name, String key) {
        this.families = families;
        this.peers = peers;
        this.name = name;
        this.key = key;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Object call(String service, Map<String, Object> arguments, Duration timeout, String trace, boolean views) {
        return ask(timeout, (member, left) -> member.call(service, arguments, left, trace, views));
    }

    @Override
    public CompletableFuture<Object> submit(
            String service, Map<String, Object> arguments, Duration timeout, String trace) {
        return passing(service, arguments, timeout, trace);
    }

    /** A call that is under way, and may be made to a second member beside the first. */
    PassingCall passing(String service, Map<String, Object> arguments, Duration timeout, String trace) {
        String carried = Trace.orCurrent(trace); // another thread may go on
        PassingCall call = new PassingCall(
                walk(), timeout, (member, left) -> peers.apply(member).submit(service, arguments, left, carried));
        call.begin();
        return call;
    }

    @Override
    public void heartbeat() {
        question(member -> {
            member.heartbeat();
            return true;
        });
    }

    @Override
    public Object about(String operation) {
        return question(member -> member.about(operation));
    }

    @Override
    public Object serviceNames() {
        return question(Peer::serviceNames);
    }

    /** As the first member that answers describes; where another one differs, a line says so. */
    @Override
    public Object described() {
        Map<String, List<Map<String, Object>>> answers = answers();
        String difference = Family.difference(answers);
        if (!difference.isEmpty()) {
            LINES.warn(LOG, "{}", difference);
        }
        return answers.values().iterator().next();
    }

    @Override
    public List<Map<String, Object>> descriptionsAlike() {
        Map<String, List<Map<String, Object>>> answers = answers();
        String difference = Family.difference(answers);
        if (!difference.isEmpty()) {
            throw new ConfigurationException("the nodes of '" + name + "' are not alike: " + difference);
        }
        return answers.values().iterator().next();
    }

    /** What members describe, by name, but for those that are gone by now; throws where all are. */
    private Map<String, List<Map<String, Object>>> answers() {
        Map<String, List<Map<String, Object>>> answers = new LinkedHashMap<>();
        SpeedException gone = families.nobody(name);
        for (String member :
                families.able(name).keySet().stream().limit(MOST_DESCRIBED).toList()) {
            try {
                answers.put(member, peers.apply(member).descriptions());
            } catch (DeliveryException | CallTimeoutException failure) {
                gone = failure;
            }
        }
        if (answers.isEmpty()) {
            throw gone;
        }
        return answers;
    }

    @Override
    public void segment(int size, double parityRate) {
        throw new ConfigurationException("segments are set for one node, not for '" + name + "'");
    }

    // --- messages ---

    @Override
    public void send(MessageDraft draft, Object payload, SendOptions options) {
        ask(options.timeout(), (member, left) -> {
            try {
                member.send(draft, payload, options.withTimeout(left));
                return true;
            } catch (SpeedException failure) {
                noteNotWritten(failure, options.acknowledged());
                throw failure;
            }
        });
    }

    @Override
    public void write(List<byte[]> messages, long deadlineNanos) {
        ask(left(deadlineNanos), (member, left) -> {
            try {
                member.write(messages, System.nanoTime() + left.toNanos());
                return true;
            } catch (SpeedException failure) {
                noteNotWritten(failure, false);
                throw failure;
            }
        });
    }

    /** Nothing is changed by a question: another member may be asked it in any case. */
    private <T> T question(Function<Peer, T> asking) {
        return ask(QUESTION_TIMEOUT, (member, left) -> {
            try {
                return asking.apply(member);
            } catch (SpeedException failure) {
                noteNotWritten(failure, false);
                throw failure;
            }
        });
    }

    /** Such an error says that nothing was written; of a node that left, unless it is waited for. */
    private static void noteNotWritten(SpeedException failure, boolean isAwaited) {
        if (failure.execution() == null && !(isAwaited && failure instanceof NodeLeftException)) {
            failure.about(Execution.NOT_BEGUN);
        }
    }

    private <T> T ask(Duration timeout, BiFunction<Peer, Duration, T> asking) {
        long deadline = System.nanoTime() + timeout.toNanos();
        Families.Walk walk = walk();
        while (true) {
            String member = walk.take();
            try {
                return asking.apply(peers.apply(member), left(deadline));
            } catch (SpeedException failure) {
                walk.failed(failure, member);
            } finally {
                families.ended(member);
            }
        }
    }

    private Families.Walk walk() {
        return families.new Walk(name, key);
    }

    private static Duration left(long deadline) {
        return Duration.ofNanos(Math.max(0, deadline - System.nanoTime()));
    }
}
