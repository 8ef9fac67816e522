package speed.runtime;

import java.util.concurrent.locks.LockSupport;

/**
 * Looks about every millisecond, while there is something to look at: has a member read when the role stays free,
 * flushes for a runner that is held up, and has futures completed that nobody completes. Waits for nobody. A daemon
 * thread of a {@link WorkerPool}.
 */
final class Relief extends Thread {
    private static final long TICK_NANOS = 1_000_000;
    /** It sleeps after so many ticks without anything to look at. */
    private static final int IDLE_TICKS = 30;
    /** Tasks that end in one tick; with fewer the queue gets another runner, with more it would only cost order. */
    private static final int SLOW_TASKS = 8;

    /** Only tasks that stay slow for so many ticks are worth several runners. */
    private static final int SLOW_TICKS = 3;

    private final WorkerPool pool;
    private volatile boolean sleeps;
    private int slowTicks;

    Relief(WorkerPool pool, String name) {
        super(name);
        this.pool = pool;
        setDaemon(true);
    }

    /** Somebody should notice if the role stays free, or a task takes long. */
    void watch() {
        if (sleeps) {
            sleeps = false;
            LockSupport.unpark(this);
        }
    }

    @Override
    public void run() {
        int idle = 0;
        while (!pool.isStopping() || !pool.futures().isEmpty()) {
            if (idle >= IDLE_TICKS) {
                sleep();
                idle = 0;
            }
            idle = tick() ? 0 : idle + 1;
        }
    }

    private void sleep() {
        sleeps = true;
        if (isNeeded()) {
            sleeps = false;
        }
        while (sleeps && !pool.isStopping()) {
            LockSupport.park(this);
        }
    }

    /** Whether there was something to look at. */
    private boolean tick() {
        long ended = pool.tasks().ended();
        long turns = pool.turns();
        boolean answersWaited = pool.waitingAnswers() > 0;
        LockSupport.parkNanos(this, TICK_NANOS);
        pool.futures().look();
        if (pool.isStopping()) {
            return false;
        }
        long done = pool.tasks().ended() - ended;
        if (answersWaited && done == 0) {
            pool.flushAtOnce();
        }
        boolean busy = pool.inspect() > TICK_NANOS / 2;
        boolean few = done < SLOW_TASKS && !pool.tasks().isEmpty();
        slowTicks = few && busy ? slowTicks + 1 : 0;
        pool.tasks().areSlow(slowTicks > SLOW_TICKS);
        if (few || done < SLOW_TASKS && !pool.isHeld() && pool.turns() == turns) {
            pool.callMember();
        }
        return isNeeded();
    }

    private boolean isNeeded() {
        return pool.tasks().isRunning() || !pool.isHeld();
    }
}
