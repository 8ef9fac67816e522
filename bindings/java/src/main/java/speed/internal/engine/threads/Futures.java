package speed.internal.engine.threads;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.PriorityBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import speed.internal.core.Log;

/**
 * What ends futures, and what the program hung on them: in the order in which they came, on threads of its own, never
 * under the protocol role and without a free worker. One thread does it all, unless it is held up in what hangs on
 * one, which may wait for the next: then the reader, who looks, has another one help. Thread-safe.
 */
public final class Futures {
    private static final Log LOG = new Log("speed.spc");
    /** How long one may be held up before another thread helps. */
    private static final long PATIENCE_NANOS = 1_000_000;

    private static final int MOST_THREADS = 256;
    private static final long IDLE_SECONDS = 1;

    private record Later(long time, Runnable task) {}

    private final Queue<Runnable> ended = new ConcurrentLinkedQueue<>();
    private final Queue<Later> later =
            new PriorityBlockingQueue<>(1, (one, other) -> Long.signum(one.time - other.time));
    private final AtomicBoolean attended = new AtomicBoolean();
    private final ThreadPoolExecutor threads;
    private volatile boolean stopping;
    private Runnable oldest;
    private long oldestSince;

    public Futures(String name) {
        AtomicInteger number = new AtomicInteger();
        threads = new ThreadPoolExecutor(
                0,
                MOST_THREADS,
                IDLE_SECONDS,
                TimeUnit.SECONDS,
                new SynchronousQueue<>(),
                work -> {
                    Thread thread = new Thread(work, "speed-" + name + "-futures-" + number.incrementAndGet());
                    thread.setDaemon(true);
                    return thread;
                },
                new ThreadPoolExecutor.DiscardPolicy());
    }

    /** Has something done soon, behind what came before. */
    public void add(Runnable end) {
        ended.add(end);
        if (stopping) {
            help();
        } else if (attended.compareAndSet(false, true)) {
            threads.execute(this::attend);
        }
    }

    /** Has something done at a time (monotonic), or at once when the node ends; the reader is to be awake by then. */
    public void addAt(long time, Runnable task) {
        later.add(new Later(time, task));
        if (stopping) {
            addDue(Long.MAX_VALUE);
        }
    }

    private void addDue(long until) {
        for (Later next = later.poll(); next != null; next = later.poll()) {
            if (until != Long.MAX_VALUE && next.time - until > 0) {
                later.add(next);
                return;
            }
            add(next.task);
        }
    }

    private void attend() {
        do {
            doAll();
            attended.set(false);
        } while (!ended.isEmpty() && attended.compareAndSet(false, true));
    }

    private void doAll() {
        for (Runnable next = ended.poll(); next != null; next = ended.poll()) {
            try {
                next.run();
            } catch (Throwable failure) { // whatever a program throws, the next has its turn
                LOG.error("what hangs on the end of a call failed", failure);
            }
        }
    }

    private void help() {
        threads.execute(this::doAll);
    }

    /** Only for the reader: has another thread help where the oldest does not move; when to look again. */
    public long look(long now) {
        addDue(now);
        Later next = later.peek();
        return Math.min(lookAtOldest(now), next == null ? Long.MAX_VALUE : next.time);
    }

    private long lookAtOldest(long now) {
        Runnable first = ended.peek();
        if (first == null) {
            oldest = null;
            return Long.MAX_VALUE;
        }
        if (first != oldest) {
            oldest = first;
            oldestSince = now;
        } else if (now - oldestSince >= PATIENCE_NANOS) {
            oldestSince = now;
            help();
        }
        return oldestSince + PATIENCE_NANOS;
    }

    /** Whether something waits: then {@link #look} is due soon. */
    boolean isWaiting() {
        return !ended.isEmpty();
    }

    /** The reader ends: what is left, and what comes, is done at once. */
    public void stop() {
        stopping = true;
        addDue(Long.MAX_VALUE);
        for (int left = ended.size(); left > 0; left--) {
            help();
        }
    }
}
