package speed.runtime;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import speed.AccessPolicy;
import speed.core.PendingCalls;
import speed.errors.SpeedException;
import speed.fs.Registration;
import speed.fs.Registry;
import speed.wire.NodeId;

/** What all parts of one running node share: identity, registry access, grants and counters. */
public final class Context {
    /** How the node was asked to be. */
    public final Options options;
    public final NodeId id;
    public final Registry registry;
    public final Registration registration;
    public final AccessPolicy policy;
    public final int generation;
    /** Whether lanes are polled and written by renaming, since bells cannot be had here (L-22). */
    public final boolean polling;
    public final PendingCalls pending = new PendingCalls();
    public final Stats stats = new Stats();
    private final CountDownLatch stopping = new CountDownLatch(1);
    private volatile SpeedException failure;
    private volatile LongConsumer heed = deadline -> {};

    Context(Options options, Registry registry, Registration registration, AccessPolicy policy, boolean polling) {
        this.options = options;
        this.registry = registry;
        this.registration = registration;
        this.policy = policy;
        this.polling = polling;
        id = NodeId.of(options.name());
        generation = registration.entry().generation();
    }

    public String name() {
        return options.name();
    }

    /** Throws why the node cannot be used any more, if so. */
    public void checkOpen() {
        if (failure != null) {
            throw failure;
        }
    }

    /** Why the node ended: it was closed, or its name is lost; null while it runs. */
    public SpeedException failure() {
        return failure;
    }

    /** Ends the node for its program and all waits in it. */
    void fail(SpeedException reason) {
        failure = reason;
        stopping.countDown();
    }

    public boolean isStopping() {
        return stopping.getCount() == 0;
    }

    /** Waits; true when the node stops meanwhile. An interrupt counts as the end of the wait. */
    public boolean awaitStop(long nanos) {
        try {
            return stopping.await(nanos, TimeUnit.NANOSECONDS);
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
            return true;
        }
    }

    /** Makes whoever holds the protocol role notice a new deadline (monotonic) in time. */
    void heed(long deadlineNanos) {
        heed.accept(deadlineNanos);
    }

    void onHeed(LongConsumer notice) {
        heed = notice;
    }
}
