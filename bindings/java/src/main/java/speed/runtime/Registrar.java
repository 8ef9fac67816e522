package speed.runtime;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import speed.core.RegistryView;
import speed.errors.LeaseLostException;
import speed.errors.SpeedException;
import speed.errors.StorageException;
import speed.fs.PosixException;
import speed.fs.RegistryWatch;
import speed.wire.Entry;

/** The registry thread: renews the lease, watches joins and leaves, notices nodes that died (R-n). Thread-safe. */
public final class Registrar {
    private static final Logger LOG = LoggerFactory.getLogger("speed.registry");
    /** How often nodes with open calls are looked at, where the kernel does not tell of their death. */
    private static final long LIVENESS_NANOS = 1_000_000_000;

    private final Context context;
    private final Consumer<SpeedException> lost;
    private final Consumer<String> left;
    private final Consumer<Runnable> tasks;
    private final List<Consumer<Entry>> joinHandlers = new CopyOnWriteArrayList<>();
    private final List<Consumer<Entry>> leaveHandlers = new CopyOnWriteArrayList<>();
    private final Thread thread;
    private RegistryWatch watch;

    Registrar(Context context, Consumer<SpeedException> lost, Consumer<String> left, Consumer<Runnable> tasks) {
        this.context = context;
        this.lost = lost;
        this.left = left;
        this.tasks = tasks;
        thread = new Thread(this::run, "speed-" + context.name() + "-registry");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Stops watching; renewing ends with the context. */
    synchronized void stop() {
        if (watch != null) {
            watch.stop();
            watch = null;
        }
    }

    /** Calls the handler, on a worker, when another node joins. */
    public void onJoin(Consumer<Entry> handler) {
        listen(joinHandlers, handler);
    }

    /** Calls the handler, on a worker, when another node leaves, dies or is replaced. */
    public void onLeave(Consumer<Entry> handler) {
        listen(leaveHandlers, handler);
    }

    private void listen(List<Consumer<Entry>> handlers, Consumer<Entry> handler) {
        handlers.add(handler);
        try {
            ensureWatch();
        } catch (StorageException unwatched) {
            handlers.remove(handler); // who was told tries again
            throw unwatched;
        }
    }

    private synchronized void ensureWatch() {
        if (watch == null && !context.isStopping()) {
            watch = new RegistryWatch(context.registry, "speed-" + context.name() + "-watch", this::changed);
        }
    }

    /** One join or leave; the node's own entry is no news. */
    private void changed(RegistryView.Event event) {
        Entry entry = event.entry();
        if (entry.name().equals(context.name())) {
            return;
        }
        boolean isLeave = event.kind() == RegistryView.Kind.LEFT;
        if (isLeave && context.registry.isGone(entry.name())) {
            left.accept(entry.name()); // who calls a successor already must not hear of its predecessor's end
        }
        for (Consumer<Entry> handler : isLeave ? leaveHandlers : joinHandlers) {
            tasks.accept(() -> handler.accept(entry));
        }
    }

    private void run() {
        long interval = context.options.heartbeat().toNanos();
        long nextHeartbeat = System.nanoTime() + interval;
        while (!context.awaitStop(Math.min(LIVENESS_NANOS, nextHeartbeat - System.nanoTime()))) {
            if (System.nanoTime() >= nextHeartbeat) {
                nextHeartbeat = System.nanoTime() + interval;
                if (!renewed()) {
                    return;
                }
            }
            checkCallees();
        }
    }

    /** One heartbeat; false once the name is lost. A failed write is tried again until the lease ends. */
    private boolean renewed() {
        try {
            context.registration.heartbeat();
        } catch (LeaseLostException error) {
            lost.accept(error);
            return false;
        } catch (PosixException | SpeedException error) {
            context.stats.count("heartbeats_failed");
            LOG.warn("lease of {} not renewed: {}", context.name(), error.getMessage());
        }
        return true;
    }

    private void checkCallees() {
        for (String target : context.pending.targets()) {
            if (context.registry.isGone(target)) {
                left.accept(target);
            }
        }
    }
}
