package speed.runtime;

import speed.core.Work;

/** One daemon thread of a {@link WorkerPool}. */
final class Worker extends Thread {
    private final WorkerPool pool;
    /** What it does now; only its own thread reads it. */
    private Work<Job> work;

    Worker(WorkerPool pool, String name) {
        super(name);
        this.pool = pool;
        setDaemon(true);
    }

    @Override
    public void run() {
        for (work = pool.first(); work != null; work = pool.next(work)) {
            pool.run(work);
        }
    }

    /** The work that the calling thread does for a pool; null if it does none. */
    static Work<Job> workFor(WorkerPool pool) {
        return Thread.currentThread() instanceof Worker worker && worker.pool == pool ? worker.work : null;
    }
}
