package speed.internal.engine.threads;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.function.Supplier;
import speed.internal.GuardedBy;
import speed.internal.core.Log;
import speed.internal.core.Scheduler;
import speed.internal.core.Work;

/**
 * The threads of a node that run services, handlers and tasks, as the {@link Scheduler} decides: its monitor is the
 * lock around the scheduler. One thread more than there are workers, and one more for each that waits for another node;
 * started one by one when needed. Thread-safe; nothing runs while the monitor is held.
 */
public final class WorkerPool {
    private static final Log LOG = new Log("speed.workers");

    private final String name;
    private final int workers;

    @GuardedBy("this")
    private final Scheduler<Job> scheduler;

    @GuardedBy("this")
    private int threads;

    @GuardedBy("this")
    private int idle;
    /** Whether a thread was called that has not looked yet: it calls the next one where there is more to do. */
    @GuardedBy("this")
    private boolean calling;

    @GuardedBy("this")
    private boolean stopping;
    /**
     * The request that was taken and has not begun yet: until it has, nothing else is taken. So requests start in
     * order, however their threads are scheduled.
     */
    @GuardedBy("this")
    private Work<Job> turn;

    @GuardedBy("this")
    private int draining;

    @GuardedBy("this")
    private int receivers;

    public WorkerPool(String name, int workers) {
        this.name = name;
        this.workers = workers;
        scheduler = new Scheduler<>(workers);
    }

    // --- arrivals ---

    /** A request whose sender's grant and head were checked. */
    public synchronized Scheduler.Admitted<Job> request(String sender, String requestId, Job job, long deadline) {
        Scheduler.Admitted<Job> admitted = scheduler.request(sender, requestId, job, deadline);
        callWorker();
        return admitted;
    }

    /** What became of a message that arrived. */
    public enum Place {
        CLAIMED,
        UNCLAIMED,
        LEAVING
    }

    /**
     * A message or event.
     *
     * @param order what it is handled in the order of
     * @param takes whether something in the program takes it: asked under the lock, so that nothing falls between
     */
    public synchronized Place message(
            String sender, Job job, int priority, Object order, boolean isEvent, Predicate<Job> takes) {
        boolean claimed = takes.test(job);
        if (scheduler.message(sender, job, System.nanoTime(), priority, order, isEvent, claimed) == null) {
            return Place.LEAVING;
        }
        if (claimed) {
            callWorker();
        } else {
            notifyReceivers();
        }
        return claimed ? Place.CLAIMED : Place.UNCLAIMED;
    }

    /** Something short of the node's own, or a callback of the program. Its exceptions are logged, never thrown. */
    public synchronized void submit(Runnable task) {
        scheduler.task(work -> task.run());
        callWorker();
    }

    // --- workers ---

    /** Has one more thread look for work, if there is some; never while a called one has not looked. */
    @GuardedBy("this")
    private void callWorker() {
        if (calling || stopping || turn != null || !scheduler.hasReady()) {
            return;
        }
        if (idle > 0) {
            calling = true;
            if (receivers + draining > 0) {
                notifyAll(); // one alone might be somebody else
            } else {
                notify();
            }
        } else if (threads <= workers + scheduler.blockedWorkers()) {
            calling = true;
            threads++;
            new Worker("speed-" + name + "-worker-" + threads).start();
        }
    }

    /** The first work of a new thread; null when it should end. */
    private synchronized Work<Job> first() {
        calling = false;
        return await();
    }

    /** Ends one work of a thread, null for one that it gave back; the next one, or null when it should end. */
    private synchronized Work<Job> next(Work<Job> ended) {
        if (ended != null) {
            scheduler.done(ended);
        }
        if (draining > 0) {
            notifyAll();
        }
        return await();
    }

    @GuardedBy("this")
    private Work<Job> await() {
        boolean interrupted = false;
        while (!stopping) {
            Work<Job> work = turn == null ? scheduler.take(System.nanoTime()) : null;
            if (work != null) {
                turn = work.kind == Work.Kind.REQUEST ? work : null;
                callWorker();
                return work;
            }
            idle++;
            try {
                wait();
            } catch (InterruptedException leftover) {
                interrupted = true; // by a service: no matter here
            }
            idle--;
            calling = false;
        }
        threads--;
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return null;
    }

    /** The request that the calling thread took has begun, or never will: others may be taken. */
    public void begun() {
        Work<Job> work = work();
        synchronized (this) {
            if (work != null && turn == work) {
                turn = null;
                callWorker();
            }
        }
    }

    /** Does one work; its exceptions are logged, never thrown. */
    @SuppressWarnings("ResultOfMethodCallIgnored")
    private void run(Work<Job> work) {
        try {
            work.item.run(work);
        } catch (Throwable failure) { // whatever a program throws, the worker goes on
            LOG.error("work of {} failed", name, failure);
        }
        begun(); // where it did not come to that
        Thread.interrupted(); // what the program left behind is not for the next one
    }

    /** The present work is tried once more at a time; what comes after it in its order waits. */
    public synchronized void again(Work<Job> work, long at) {
        if (Thread.currentThread() instanceof Worker worker && worker.pool() == this) {
            worker.gaveBack = true;
        }
        scheduler.again(work, at);
    }

    /** Waits for another node, or for room; the place of the calling worker is given to others meanwhile. */
    public <T> T blocking(Supplier<T> waiting) {
        Work<Job> work = work();
        boolean gave = false;
        if (work != null) {
            begun(); // nobody waits for who waits
            synchronized (this) {
                gave = scheduler.blocked(work);
                callWorker();
            }
        }
        try {
            return waiting.get();
        } finally {
            if (gave) {
                synchronized (this) {
                    scheduler.resumed(work);
                }
            }
        }
    }

    // --- what nothing takes yet ---

    /** The program said what it takes. */
    public synchronized int claim(Predicate<Job> takes) {
        int claimed = scheduler.claim(takes);
        callWorker();
        return claimed;
    }

    /** The next message for the program to fetch, or null when none came in time or the pool stopped. */
    public synchronized Work<Job> receive(long deadline) throws InterruptedException {
        for (Work<Job> work = scheduler.receive(); ; work = scheduler.receive()) {
            long left = deadline - System.nanoTime();
            if (work != null || stopping || left <= 0) {
                return work;
            }
            receivers++;
            try {
                TimeUnit.NANOSECONDS.timedWait(this, left);
            } finally {
                receivers--;
            }
        }
    }

    /** Who fetches and who rests wait at one place: all look. */
    @GuardedBy("this")
    private void notifyReceivers() {
        if (receivers > 0) {
            notifyAll();
        }
    }

    /** The program did not take it after all. */
    public synchronized void putBack(Work<Job> work) {
        scheduler.putBack(work);
        notifyReceivers();
    }

    /** What the program had fetched is done with. */
    public synchronized void finished(Work<Job> work) {
        scheduler.done(work);
    }

    // --- withdrawal, departure, time ---

    /** A request that the caller withdrew: ended if it waited, as it was if it runs, null if it is unknown. */
    public synchronized Work<Job> withdraw(String sender, String requestId) {
        return scheduler.withdraw(sender, requestId);
    }

    /** Whether a request waits or runs. */
    synchronized boolean has(String sender, String requestId) {
        return scheduler.has(sender, requestId);
    }

    /** Those requests of a caller; those that waited are ended. */
    public synchronized List<Work<Job>> forget(String sender, Predicate<Job> which) {
        return scheduler.forget(sender, which);
    }

    /** Senders of the requests that wait or run. */
    public synchronized List<String> callers() {
        return scheduler.callers();
    }

    /** All requests that wait or run. */
    public synchronized List<Work<Job>> requests() {
        return scheduler.requests();
    }

    /** What is over its time. */
    public synchronized Scheduler.Overdue<Job> expire(long now) {
        Scheduler.Overdue<Job> overdue = scheduler.expire(now);
        if (scheduler.endBackOff(now)) {
            callWorker();
        }
        return overdue;
    }

    /** Monotonic time of the next thing that {@link #expire} has to do. */
    public synchronized long nextTime() {
        return scheduler.nextTime();
    }

    /** Adds what waits and what runs, and how many run at once, as STATS tells it. */
    public synchronized void addLoad(Map<String, Object> fields) {
        scheduler.addLoad(fields);
        fields.put("workers", workers);
    }

    // --- the end ---

    /** No further request is accepted. */
    public synchronized void leave() {
        scheduler.leave();
    }

    /** Waits until nothing waits for a worker and nothing is at work, but for the work of the calling thread. */
    public synchronized void drain(long nanos) {
        Work<Job> own = work();
        long deadline = System.nanoTime() + nanos;
        draining++;
        try {
            for (long left = nanos; left > 0; left = deadline - System.nanoTime()) {
                if (own == null ? scheduler.isSettled() : scheduler.isSettledBut(own)) {
                    return;
                }
                TimeUnit.NANOSECONDS.timedWait(this, left);
            }
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
        } finally {
            draining--;
        }
    }

    /** Nothing is taken any more, and every thread ends after its present work; returns the requests that waited. */
    public synchronized List<Work<Job>> stop() {
        stopping = true;
        notifyAll();
        return scheduler.close();
    }

    /** Whether the calling thread is one of this pool's, at work. */
    public boolean isAtWork() {
        return work() != null;
    }

    /** The work that the calling thread does for this pool; null if it does none. */
    private Work<Job> work() {
        return Thread.currentThread() instanceof Worker worker && worker.pool() == this ? worker.work : null;
    }

    /** One daemon thread. */
    private final class Worker extends Thread {
        /** What it does now; only its own thread reads it. */
        private Work<Job> work;
        /** Its work is tried again later, perhaps by another: it is not done when this thread is. */
        private boolean gaveBack;

        Worker(String name) {
            super(name);
            setDaemon(true);
        }

        private WorkerPool pool() {
            return WorkerPool.this;
        }

        @Override
        public void run() {
            work = first();
            while (work != null) {
                gaveBack = false;
                WorkerPool.this.run(work);
                work = next(gaveBack ? null : work);
            }
        }
    }

    /** What a worker runs. */
    public interface Job {
        /** Does it; the work is done when this returns, unless it is to be tried again ({@link WorkerPool#again}). */
        void run(Work<Job> work);
    }
}
