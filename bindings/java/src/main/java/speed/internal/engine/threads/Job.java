package speed.internal.engine.threads;

import speed.internal.core.Work;

/** What a worker runs. */
public interface Job {
    /** Does it; the work is done when this returns, unless it is to be tried again ({@link WorkerPool#again}). */
    void run(Work<Job> work);
}
