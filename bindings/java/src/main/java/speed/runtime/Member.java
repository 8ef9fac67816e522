package speed.runtime;

import java.util.concurrent.locks.LockSupport;
import speed.fs.Posix;

/** One daemon thread of a {@link WorkerPool}: reads, runs tasks, or rests. */
final class Member extends Thread {
    /** Part of a tick that a thread must have had a processor to count as busy, not as waiting for one. */
    private static final long BUSY_NANOS = 500_000;
    /** A task that takes so long does not count on anybody's processor: it may wait in a system call. */
    private static final long LONG_NANOS = 100_000_000;
    private static final long UNSEEN = -1;

    private final WorkerPool pool;
    private volatile boolean called;
    private volatile boolean isRunner;
    private volatile boolean isHeldUp;
    private volatile long entered;
    private volatile int threadId;
    private long seenEntry;
    private long seenCpu = UNSEEN;

    Member(WorkerPool pool, String name) {
        super(name);
        this.pool = pool;
        setDaemon(true);
    }

    @Override
    public void run() {
        threadId = Posix.threadId();
        pool.live(this);
    }

    // --- resting ---

    /** Sleeps until it is called. */
    void rest() {
        while (!called && !pool.isStopping()) {
            LockSupport.park(pool);
        }
        called = false;
    }

    void call() {
        called = true;
        LockSupport.unpark(this);
    }

    // --- running ---

    void beginRun() {
        isRunner = true;
    }

    void endRun() {
        isRunner = false;
    }

    /** The program's part of a task begins, or a wait that may be long: from here on it may be held up. */
    void enter() {
        entered = System.nanoTime();
    }

    /** The task is over. */
    void leave() {
        entered = 0;
        isHeldUp = false;
    }

    boolean isRunnerOf(WorkerPool asking) {
        return isRunner && pool == asking;
    }

    /** Whether it takes tasks and is not held up in one. */
    boolean isQuick() {
        return isRunner && !isHeldUp;
    }

    /**
     * Called by the relief at each tick: it is held up when it was in the same task at the last tick, and waits or
     * works in it. A thread that only waits for a processor is not: its task may hardly have begun, and another must
     * not begin before it (S-5). Returns for how long it had a processor since the last tick.
     */
    long inspect() {
        if (!isRunner) {
            seenCpu = UNSEEN;
            return 0;
        }
        long entry = entered;
        long cpu = Posix.threadCpuNanos(threadId);
        long worked = seenCpu == UNSEEN ? 0 : cpu - seenCpu;
        boolean waits = getState() != State.RUNNABLE;
        boolean isLong = System.nanoTime() - entry > LONG_NANOS;
        if (entry != 0 && entry == seenEntry && (waits || worked > BUSY_NANOS || isLong)) {
            isHeldUp = entry == entered;
        }
        seenEntry = entry;
        seenCpu = cpu;
        return worked;
    }
}
