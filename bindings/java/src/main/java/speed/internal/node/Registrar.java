package speed.internal.node;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Supplier;
import speed.errors.ConfigurationException;
import speed.errors.LeaseLostException;
import speed.errors.SpeedException;
import speed.errors.StorageException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.core.RegistryView;
import speed.internal.engine.Context;
import speed.internal.engine.LogLimiter;
import speed.internal.fs.ObserverFile;
import speed.internal.fs.PosixException;
import speed.internal.fs.RegistryWatch;
import speed.internal.wire.Entry;
import speed.internal.wire.NodeIdentity;

/** The registry thread: renews the lease, watches joins and leaves, notices nodes that died (R-n). Thread-safe. */
final class Registrar {
    private static final Log LOG = new Log("speed.registry");
    /** How often nodes with open calls are looked at, where the kernel does not tell of their death. */
    private static final long LIVENESS_NANOS = 1_000_000_000;

    private final Context context;
    private final Consumer<Supplier<SpeedException>> lost;
    private volatile Consumer<String> left = name -> {};
    private volatile Supplier<List<String>> callers = List::of;
    private volatile BiConsumer<String, Integer> there = (name, generation) -> {};
    private final Consumer<Runnable> tasks;
    private final List<Consumer<SpeedException>> lostHandlers = new CopyOnWriteArrayList<>();
    private final List<Consumer<Entry>> joinHandlers = new CopyOnWriteArrayList<>();
    private final List<Consumer<Entry>> leaveHandlers = new CopyOnWriteArrayList<>();
    private final Sweeper sweeper;
    private final LogLimiter lines = new LogLimiter();
    private final Thread thread;
    private RegistryWatch watch;
    /** What was said last of the key file; null if it is sound. */
    private String refused;
    /** The same of the identity file. */
    private String identityRefused;
    /** The identity that the entry tells of; null without one. */
    private NodeIdentity shown;
    /** The same as of keys, of the observers. */
    private String observersRefused;

    /**
     * The registry thread of a node.
     *
     * @param lost told why the lease is gone
     * @param tasks runs what the program wants to be told
     */
    Registrar(Context context, Consumer<Supplier<SpeedException>> lost, Consumer<Runnable> tasks, Sweeper sweeper) {
        this.sweeper = sweeper;
        this.context = context;
        this.lost = lost;
        this.tasks = tasks;
        shown = context.peers == null ? null : context.peers.own();
        thread = new Thread(this::run, "speed-" + context.name() + "-registry");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /**
     * From now on the death of others is noticed: of those who are waited for, and of those whose requests are here.
     *
     * @param newThere told which generation of one of them is there
     */
    void notice(Supplier<List<String>> newCallers, Consumer<String> newLeft, BiConsumer<String, Integer> newThere) {
        callers = newCallers;
        there = newThere;
        left = newLeft;
    }

    /** The first renewal, before anything else is done; LeaseLostException if it came too late. */
    void renewAtOnce() {
        try {
            context.registration.heartbeat();
        } catch (PosixException error) {
            context.stats.count(Counters.HEARTBEATS_FAILED); // tried again until the lease ends
        }
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

    /** Calls the handler, on a thread of its own, once the lease is gone. */
    public void onLost(Consumer<SpeedException> handler) {
        lostHandlers.add(handler);
    }

    private void tellLost(SpeedException reason) {
        for (Consumer<SpeedException> handler : lostHandlers) {
            Thread thread = new Thread(
                    () -> {
                        try {
                            handler.accept(reason);
                        } catch (Throwable failure) { // the program's code
                            LOG.error("the handler of a lost lease failed", failure);
                        }
                    },
                    "speed-" + context.name() + "-lost");
            thread.setDaemon(true);
            thread.start();
        }
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
        if (watch == null && !context.state.hasEnded()) {
            watch = new RegistryWatch(
                    context.registry, "speed-" + context.name() + "-watch", this::changed, context.stats::count);
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
            if (System.nanoTime() >= nextHeartbeat || context.registration.hasNewKeys()) {
                nextHeartbeat = System.nanoTime() + interval;
                if (!renewed()) {
                    return;
                }
            }
            guarded("looking after other nodes", this::checkOthers);
            guarded("sweeping", sweeper::turn);
        }
    }

    /** Whatever of it fails, the lease is renewed: without this thread the name would be lost. */
    private void guarded(String what, Runnable step) {
        try {
            step.run();
        } catch (RuntimeException | Error failure) {
            context.stats.count(Counters.REGISTRY_FAILURES);
            lines.warn(LOG, "{} failed, it is tried again: {}", what, failure.toString());
        }
    }

    /** One heartbeat; false once the name is lost. A failed write is tried again until the lease ends. */
    private boolean renewed() {
        lookAtKeys();
        guarded("looking at the identity file", this::lookAtIdentity);
        guarded("looking for observers", this::lookAtObservers);
        long restored = context.registration.claimsRestored();
        try {
            context.registration.heartbeat();
        } catch (LeaseLostException error) {
            lost.accept(() -> new LeaseLostException(error.getMessage()));
            tellLost(error);
            return false;
        } catch (PosixException | SpeedException error) {
            context.stats.count(Counters.HEARTBEATS_FAILED);
            LOG.warn("lease of {} not renewed: {}", context.name(), error.getMessage());
        }
        if (context.registration.claimsRestored() > restored) {
            context.stats.count(Counters.CLAIMS_RESTORED);
            LOG.warn("the claim of {} was removed, and made again: nobody but the node may remove it", context.name());
        }
        return true;
    }

    /** Takes keys that changed; what is wrong with their file is said once, and again after it was mended. */
    private void lookAtKeys() {
        refused = told(context.keys.look(), refused);
    }

    /** Likewise exchange keys that were renewed: others seal for what the entry says. */
    private void lookAtIdentity() {
        if (context.peers == null) {
            return;
        }
        identityRefused = told(context.peers.look(), identityRefused);
        NodeIdentity now = context.peers.own();
        if (now != shown) {
            String card = context.peers.card(context.name());
            context.registration.update(entry -> entry.showing(card));
            shown = now;
        }
    }

    /** What is wrong with a file of keys now; it is said unless it was before. */
    private String told(String wrong, String before) {
        if (wrong != null) {
            context.stats.count(Counters.KEY_FILES_REFUSED);
            if (!wrong.equals(before)) {
                LOG.warn("{} goes on with the keys that it has: {}", context.name(), wrong);
            }
        }
        return wrong;
    }

    /** Takes observers that changed; a file that does not count names none, which is said once. */
    private void lookAtObservers() {
        List<String> found = List.of();
        String wrong = null;
        try {
            found = ObserverFile.read(context.options.root());
        } catch (ConfigurationException nobody) {
            wrong = nobody.getMessage();
            if (!wrong.equals(observersRefused)) {
                LOG.warn("{}", wrong);
            }
        }
        observersRefused = wrong;
        if (!found.equals(context.registration.entry().published().observers())) {
            context.policy.observe(found);
            context.registration.allow(context.policy);
        }
    }

    /** Those who are waited for, and those who wait. */
    private void checkOthers() {
        Set<String> others = new HashSet<>(context.pending.targets());
        others.addAll(callers.get());
        for (String other : others) {
            Entry entry = context.registry.surelyLive(other);
            if (entry == null) {
                left.accept(other);
            } else {
                there.accept(other, entry.generation());
            }
        }
    }
}
