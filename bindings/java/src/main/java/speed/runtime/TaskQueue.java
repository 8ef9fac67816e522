package speed.runtime;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The tasks of a node and the members that run them, at most {@code size} at once. Tasks start in the order in which
 * they came (S-5): while they are short, one runner takes all of them; others join it only when tasks are slow, or when
 * it is held up in one. Thread-safe.
 */
final class TaskQueue {
    private static final Logger LOG = LoggerFactory.getLogger("speed.workers");
    private static final long DRAIN_LOOK_NANOS = 10_000_000;

    private final int size;
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final List<Member> runners = new ArrayList<>();
    private final LongAdder ended = new LongAdder();
    private volatile int running;
    private volatile boolean slow;

    TaskQueue(int size) {
        this.size = size;
    }

    void add(Runnable task) {
        tasks.add(task);
    }

    void clear() {
        tasks.clear();
    }

    boolean isEmpty() {
        return tasks.isEmpty();
    }

    boolean isRunning() {
        return running > 0;
    }

    /** How many tasks are over. */
    long ended() {
        return ended.sum();
    }

    /** Whether tasks take so long that several runners should take them side by side. */
    void areSlow(boolean slow) {
        this.slow = slow;
    }

    // --- runners ---

    /** Whether one more thread should run tasks. */
    boolean wantsRunner() {
        return !tasks.isEmpty() && running < size && (running == 0 || slow || !hasQuickRunner(null));
    }

    /** Whether a runner other than this one takes tasks and is not held up in one. */
    private synchronized boolean hasQuickRunner(Member asking) {
        for (Member runner : runners) {
            if (runner != asking && runner.isQuick()) {
                return true;
            }
        }
        return false;
    }

    /** Makes a member a runner, if one more is wanted. */
    synchronized boolean begin(Member member) {
        boolean wanted = wantsRunner();
        if (wanted) {
            runners.add(member);
            running = runners.size();
            member.beginRun();
        }
        return wanted;
    }

    /** The next task of a runner; null, and it is none any more, when there is none or another runner takes them. */
    synchronized Runnable next(Member member) {
        member.leave();
        Runnable task = running > 1 && !slow && hasQuickRunner(member) ? null : tasks.poll();
        if (task == null) {
            member.endRun();
            runners.remove(member);
            running = runners.size();
            notifyAll();
        }
        return task;
    }

    /** Runs a task; its exceptions are logged, never thrown. */
    void run(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException | Error failure) {
            LOG.error("worker task failed", failure);
        }
        ended.increment();
    }

    /** Waits until no task is queued or running, for a limited time. */
    synchronized void drain(long nanos) {
        long deadline = System.nanoTime() + nanos;
        try {
            long left = nanos;
            while ((running > 0 || !tasks.isEmpty()) && left > 0) {
                TimeUnit.NANOSECONDS.timedWait(this, Math.min(left, DRAIN_LOOK_NANOS));
                left = deadline - System.nanoTime();
            }
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
        }
    }
}
