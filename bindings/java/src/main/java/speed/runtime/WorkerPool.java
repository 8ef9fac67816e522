package speed.runtime;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads of a node that read and run (decision 0007): one holds the protocol role, others run tasks.
 *
 * <p>Whoever holds the role and reads requests gives the role up and runs them itself, one after the other: no
 * hand-over between threads where one would do. The {@link Relief} looks about every millisecond, only while there is
 * something to look at: a runner held up in one task is relieved of reading by another thread, and of the tasks behind
 * it. So a running service never blocks message processing. At most {@code size} tasks of the {@link TaskQueue} run at
 * once, on {@code size + 1} daemon threads, started one by one when needed: one can always read. Thread-safe.
 */
final class WorkerPool {
    private static final Logger LOG = LoggerFactory.getLogger("speed.workers");
    private static final long LOOK_NANOS = 1_000_000;
    private static final long FLUSH_NANOS = 500_000;
    private static final int FLUSH_ANSWERS = 64;
    private static final long FAILED_STEP_NANOS = 50_000_000;

    /** What the members do with the role. */
    interface Reading {
        /** One turn of reading; with {@code wait} it stays until there is something. */
        void step(boolean wait);

        /** Sends the answers that wait; waits for room where there is none. */
        void flush();

        /** Sends the answers that there is room for; false if some are left. */
        boolean flushAtOnce();

        int waitingAnswers();

        boolean hasOpenCalls();

        /** Ends the wait of whoever reads. */
        void wake();
    }

    /** The protocol role. */
    private final Semaphore role = new Semaphore(1);

    private final String name;
    private final int size;
    private final TaskQueue tasks;
    private final Futures futures;
    private final List<Member> members = new ArrayList<>();
    private final Deque<Member> resting = new ArrayDeque<>();
    private final Relief relief;
    private Reading reading;
    private volatile long turns;
    private volatile boolean stopping;
    private volatile boolean serves;
    private volatile boolean callerWaits;

    WorkerPool(String name, int size) {
        this.name = name;
        this.size = size;
        tasks = new TaskQueue(size);
        futures = new Futures(this, name);
        relief = new Relief(this, "speed-" + name + "-relief");
    }

    void start(Reading duties) {
        reading = duties;
        relief.start();
        callMember();
    }

    /** From now on others may need this node at any time: callers do not hold the role between times. */
    void serve() {
        serves = true;
    }

    // --- tasks ---

    /** Runs a task after the present turn; only for the thread that holds the role. */
    void queue(Runnable task) {
        tasks.add(task);
    }

    /** Runs a task on a member; its exceptions are logged, never thrown. */
    void submit(Runnable task) {
        tasks.add(task);
        if (!onWorker() && !stopping) {
            callMember();
        }
    }

    /** Whether this thread runs a task: what it finishes can wait for the flush after it. */
    boolean onWorker() {
        return Thread.currentThread() instanceof Member member && member.isRunnerOf(this);
    }

    /** The program's part of the present task begins: if it takes long, others take what is queued behind it. */
    void enter() {
        if (Thread.currentThread() instanceof Member member) {
            member.enter();
        }
    }

    // --- members ---

    /** Has one more thread look for work: a resting one, or a new one while there may be more. */
    synchronized void callMember() {
        if (!resting.isEmpty()) {
            resting.pop().call();
        } else if (members.size() <= size && !stopping) {
            String kind = members.isEmpty() ? "protocol" : "worker-" + members.size();
            Member member = new Member(this, "speed-" + name + "-" + kind);
            members.add(member);
            member.start();
        }
    }

    /** The life of a member. */
    void live(Member member) {
        while (!stopping) {
            if (role.tryAcquire()) {
                holdRole();
                if (tasks.isEmpty() && yieldToCallers(member)) {
                    continue;
                }
            }
            if (tasks.begin(member)) {
                runTasks(member);
            } else if (isHeld()) {
                restWhileHeld(member);
            }
        }
    }

    /** Reads until there is something to run, or a caller wants to read its answers itself. */
    private void holdRole() {
        try {
            while (!stopping) {
                turn(!tasks.wantsRunner());
                if (tasks.wantsRunner() || callerWaits && callersMayRead()) {
                    return;
                }
            }
        } finally {
            role.release();
        }
    }

    /** One turn of reading, under the role. */
    @SuppressWarnings("NonAtomicOperationOnVolatileField") // the role allows one writer
    private void turn(boolean wait) {
        turns++;
        try {
            reading.step(wait);
        } catch (RuntimeException | Error failure) {
            LOG.error("protocol step failed", failure);
            LockSupport.parkNanos(FAILED_STEP_NANOS);
        }
    }

    private boolean callersMayRead() {
        return !serves && !reading.hasOpenCalls() && tasks.isEmpty();
    }

    /** Leaves the free role to callers, if one wanted it; the relief looks whether one comes. */
    private boolean yieldToCallers(Member member) {
        synchronized (this) {
            if (stopping || !callerWaits || !callersMayRead()) {
                return false;
            }
            callerWaits = false;
            resting.push(member);
        }
        relief.watch();
        member.rest();
        return true;
    }

    private void restWhileHeld(Member member) {
        synchronized (this) {
            if (stopping || tasks.wantsRunner() || !isHeld()) {
                return;
            }
            resting.push(member);
        }
        member.rest();
    }

    /** Runs tasks until none is left to it; answers leave in between when they are many or old. */
    private void runTasks(Member member) {
        relief.watch();
        long looked = System.nanoTime();
        long flushed = looked;
        for (Runnable task = tasks.next(member); task != null && !stopping; task = tasks.next(member)) {
            tasks.run(task);
            long now = System.nanoTime();
            if (tasks.isEmpty() || now - flushed > FLUSH_NANOS || reading.waitingAnswers() >= FLUSH_ANSWERS) {
                member.enter();
                flush();
                flushed = now;
            }
            if (now - looked > LOOK_NANOS) {
                lookIn();
                looked = now;
            }
        }
        flushAtOnce();
    }

    /** Reads what came meanwhile, without waiting, if nobody else does. */
    private void lookIn() {
        if (role.tryAcquire()) {
            try {
                turn(false);
            } finally {
                role.release();
            }
        }
    }

    /** Sends the answers that wait; only for a runner, since it may take long. */
    private void flush() {
        try {
            reading.flush();
        } catch (RuntimeException | Error failure) {
            LOG.error("answers not sent", failure);
        }
    }

    /** Sends the answers that there is room for; a runner waits for the others, after the next task. */
    void flushAtOnce() {
        try {
            if (reading.waitingAnswers() > 0 && !reading.flushAtOnce() && tasks.isEmpty()) {
                tasks.add(() -> {});
            }
        } catch (RuntimeException | Error failure) {
            LOG.error("answers not sent", failure);
        }
    }

    // --- callers ---

    /**
     * Lets a waiting caller read by itself until it is done, if nobody else reads and nobody would miss it. Returns
     * early if another thread reads; then that one completes the caller.
     */
    void lead(Waiter caller) {
        boolean worker = onWorker();
        if (!worker && serves) {
            return;
        }
        if (!role.tryAcquire()) {
            callerWaits |= !worker;
            return;
        }
        try {
            while (!caller.isDone() && !stopping) {
                turn(true);
                if (!tasks.isEmpty()) {
                    callMember();
                }
            }
        } finally {
            role.release();
        }
        if (!tasks.isEmpty() || reading.hasOpenCalls()) {
            callMember();
        } else {
            relief.watch();
        }
    }

    /** Has somebody read, since an answer is awaited that no thread waits for. */
    void ensureReader() {
        if (!isHeld() && !onWorker()) {
            callMember();
        }
    }

    // --- what the relief looks at ---

    boolean isHeld() {
        return role.availablePermits() == 0;
    }

    TaskQueue tasks() {
        return tasks;
    }

    Futures futures() {
        return futures;
    }

    boolean isStopping() {
        return stopping;
    }

    /** Lets each member see whether it is held up; returns how long all of them had a processor since the last look. */
    synchronized long inspect() {
        return members.stream().mapToLong(Member::inspect).sum();
    }

    long turns() {
        return turns;
    }

    int waitingAnswers() {
        return reading.waitingAnswers();
    }

    // --- the end ---

    /**
     * Lets every thread end after its present turn or task. Waits for the reader and takes the role from it for good;
     * does not wait for services, nor for what the program hung on futures.
     */
    void stop(long nanos) {
        stopping = true;
        tasks.clear();
        futures.help();
        reading.wake();
        boolean interrupted = Thread.interrupted();
        try {
            if (!role.tryAcquire(nanos, TimeUnit.NANOSECONDS)) {
                LOG.error("the reader of {} does not end", name);
            }
        } catch (InterruptedException hurry) {
            interrupted = true;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        relief.watch();
        synchronized (this) {
            members.forEach(Member::call);
        }
    }
}
