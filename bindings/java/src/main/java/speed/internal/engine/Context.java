package speed.internal.engine;

import java.util.function.Consumer;
import java.util.function.LongConsumer;
import speed.internal.core.AccessPolicy;
import speed.internal.core.PendingCalls;
import speed.internal.fs.KeyFiles.KeySource;
import speed.internal.fs.Registration;
import speed.internal.fs.Registry;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;
import speed.internal.wire.NodeId;
import speed.options.NodeOptions;

/** What all parts of one running node share: identity, registry access, grants and counters. */
public final class Context {
    /** What a lane holds open to be read, and a link to be written: directory and segment, and cursor or bell. */
    private static final int FILES_EACH = 3;

    private static final int MIN_AWAKE = 4;

    /** How the node was asked to be. */
    public final NodeOptions options;

    public final NodeId id;
    public final KeySource keys;
    public final Registry registry;
    public final Registration registration;
    public final AccessPolicy policy;
    /** Null without an identity. */
    public final PeerIdentities peers;

    public final int generation;
    /** Whether lanes are polled and written by renaming, since bells cannot be had here. */
    public final boolean polling;

    public final PendingCalls pending = new PendingCalls();
    public final Stats stats = new Stats();
    public final NodeState state = new NodeState();
    private volatile LongConsumer wakeBy = deadline -> {};
    private volatile Consumer<String> unheard = target -> {};
    private volatile Consumer<String> laneRemoved = source -> {};

    public Context(
            NodeOptions options,
            KeySource keys,
            Registry registry,
            Registration registration,
            AccessPolicy policy,
            PeerIdentities peers,
            boolean polling) {
        this.options = options;
        this.keys = keys;
        this.registry = registry;
        this.registration = registration;
        this.policy = policy;
        this.peers = peers;
        this.polling = polling;
        id = NodeId.of(options.name());
        generation = registration.entry().generation();
    }

    /** How many lanes may hold files open: two thirds of the files are for them. */
    public int mostLanes() {
        return Math.max(MIN_AWAKE, (int) (2L * options.maxOpenFiles() / 3 / FILES_EACH));
    }

    /** How many links may. */
    public int mostLinks() {
        return Math.max(MIN_AWAKE, options.maxOpenFiles() / 3 / FILES_EACH);
    }

    public String name() {
        return options.name();
    }

    /** Of the identity of this node; empty without one. */
    public String fingerprint() {
        return peers == null ? "" : peers.fingerprint();
    }

    /** Whether an entry grants this node to write. */
    public boolean isGrantedBy(Entry entry) {
        return entry.grants(name(), fingerprint());
    }

    /** The keys of now for what waits in files of this node: with an identity, nobody else has them. */
    public Keyring restingKeyring() {
        Keyring shared = registry.keyring();
        return peers == null ? shared : shared.derived(peers.own()::restingKey);
    }

    /** Throws why the node cannot be used any more, if so. */
    public void checkOpen() {
        state.checkOpen();
    }

    /** Waits; true when the node stops meanwhile. An interrupt counts as the end of the wait. */
    public boolean awaitStop(long nanos) {
        return state.awaitEnd(nanos);
    }

    /** Makes whoever holds the protocol role notice a new deadline (monotonic) in time. */
    public void wakeBy(long deadlineNanos) {
        wakeBy.accept(deadlineNanos);
    }

    public void onWakeBy(LongConsumer notice) {
        wakeBy = notice;
    }

    /** Nobody hears the bell of a node that was written to: perhaps it is gone. */
    public void unheard(String target) {
        unheard.accept(target);
    }

    public void onUnheard(Consumer<String> notice) {
        unheard = notice;
    }

    /** Of a sender that will not come back this node has no lane any more. */
    public void laneRemoved(String source) {
        laneRemoved.accept(source);
    }

    public void onLaneRemoved(Consumer<String> notice) {
        laneRemoved = notice;
    }

    /** Whether a node says that it takes payloads in segments. */
    public boolean takesSegments(String target) {
        Entry entry = registry.live(target);
        return entry != null && entry.has(Entry.SEGMENTS);
    }

    /** The trace context of the work at hand: set around services and handlers, read by calls and sends. */
    public static final class Trace {
        private static final ThreadLocal<String> CURRENT = new ThreadLocal<>();

        private Trace() {}

        /** What the program gave, else that of the work at hand, else null. */
        public static String orCurrent(String given) {
            return given != null ? given : CURRENT.get();
        }

        /** Runs something under a trace context. */
        public static void under(String traceparent, Runnable work) {
            String before = CURRENT.get();
            CURRENT.set(traceparent);
            try {
                work.run();
            } finally {
                CURRENT.set(before);
            }
        }
    }
}
