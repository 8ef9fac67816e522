package speed.runtime;

import speed.core.Work;

/** One daemon thread of a {@link WorkerPool}. */
final class Worker extends Thread {
    private final WorkerPool pool;
    /** What it does now; only its own thread reads it. */
    private Work<Job> work;
    private boolean gaveBack;

    Worker(WorkerPool pool, String name) {
        super(name);
        this.pool = pool;
        setDaemon(true);
    }

    @Override
    public void run() {
        work = pool.first();
        while (work != null) {
            gaveBack = false;
            pool.run(work);
            work = pool.next(gaveBack ? null : work);
        }
    }

    /** The calling thread's work is tried again later, perhaps by another: it is not done when this thread is. */
    static void giveBack(WorkerPool pool) {
        if (Thread.currentThread() instanceof Worker worker && worker.pool == pool) {
            worker.gaveBack = true;
        }
    }

    /** The work that the calling thread does for a pool; null if it does none. */
    static Work<Job> workFor(WorkerPool pool) {
        return Thread.currentThread() instanceof Worker worker && worker.pool == pool ? worker.work : null;
    }
}
