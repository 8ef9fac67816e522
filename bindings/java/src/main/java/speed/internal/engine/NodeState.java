package speed.internal.engine;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import speed.errors.SpeedException;

/**
 * Where a node is in its life, for all of its parts. It only goes forward, along the table; who asks for another step is
 * told that it is not taken. Thread-safe.
 */
public final class NodeState {
    /** A part of a node's life. */
    public enum Phase {
        /** Its parts are made; a name that is lost now fails the start. */
        STARTING,
        /** It serves. */
        OPEN,
        /** It was closed: it takes nothing more, and finishes what is in flight. */
        LEAVING,
        /** The program is told so, all waits end, nothing begins. */
        ENDED
    }

    private static final Map<Phase, Set<Phase>> NEXT = Map.of(
            Phase.STARTING, Set.of(Phase.OPEN, Phase.ENDED),
            Phase.OPEN, Set.of(Phase.LEAVING, Phase.ENDED),
            Phase.LEAVING, Set.of(Phase.ENDED),
            Phase.ENDED, Set.of());

    private final CountDownLatch ended = new CountDownLatch(1);
    /** Written under the monitor. */
    private volatile Phase phase = Phase.STARTING;
    /** Set before the phase is ENDED. */
    private volatile Supplier<SpeedException> reason;

    public Phase phase() {
        return phase;
    }

    /** Whether it leaves, or has ended: nothing that fails is tried again. */
    public boolean isOver() {
        return phase.compareTo(Phase.LEAVING) >= 0;
    }

    public boolean hasEnded() {
        return phase == Phase.ENDED;
    }

    /** It serves from now on; false if it ended meanwhile. */
    public boolean open() {
        return move(Phase.OPEN);
    }

    /** It takes nothing more; false if it leaves already, or has ended. */
    public boolean leave() {
        return move(Phase.LEAVING);
    }

    /**
     * It is over.
     *
     * @param why what the program is told from then on; the first reason stays
     * @return the phase that it ended in; ENDED if it had ended before
     */
    public synchronized Phase end(Supplier<SpeedException> why) {
        Phase before = phase;
        if (before != Phase.ENDED) {
            reason = why;
            move(Phase.ENDED);
            ended.countDown();
        }
        return before;
    }

    private synchronized boolean move(Phase to) {
        if (!NEXT.get(phase).contains(to)) {
            return false;
        }
        phase = to;
        return true;
    }

    /** Why it ended; null while it has not. Each time a new exception. */
    public SpeedException failure() {
        return hasEnded() ? reason.get() : null;
    }

    /** Throws why it has ended, if so. */
    public void checkOpen() {
        SpeedException failure = failure();
        if (failure != null) {
            throw failure;
        }
    }

    /** Waits; true when it ends meanwhile. An interrupt counts as the end of the wait. */
    public boolean awaitEnd(long nanos) {
        try {
            return ended.await(nanos, TimeUnit.NANOSECONDS);
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
            return true;
        }
    }
}
