package speed.internal.node;

import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import speed.errors.SpeedException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.LogLimiter;
import speed.internal.fs.PosixException;
import speed.internal.fs.Sweep;

/**
 * A node's share of sweeping: what others left in the root, a little at a time. It looks through the registry about
 * once a lease, and soon at names that are said to be gone. {@link #heard} is for any thread, {@link #turn} for the one
 * that renews the lease.
 */
final class Sweeper {
    private static final Log LOG = new Log("speed.registry");
    private static final long FIRST_NANOS = 1_000_000_000;
    /** How long is swept at most before the lease is looked after again. */
    private static final long TURN_NANOS = 100_000_000;
    /** An entry that was written since is left to the next round. */
    private static final long UNTOUCHED_MS = 10_000;
    /** Each so many nodes make everyone's pause one longer: however many there are, the root is swept as often. */
    private static final int CROWD = 32;

    private static final int MAX_GONE = 65_536;

    private final Context context;
    private final long lease;
    private final Set<String> gone = ConcurrentHashMap.newKeySet();
    private final Map<String, Integer> ordinary = new HashMap<>();
    private final LogLimiter lines = new LogLimiter();
    private Iterator<String> round = Collections.emptyIterator();
    private long nextRound;
    private boolean isFirst = true;
    private long nextLease;
    private volatile Runnable eachLease = () -> {};

    Sweeper(Context context) {
        this.context = context;
        lease = context.options.lease().toNanos();
        long first = context.options.ephemeral() ? lease : Math.min(FIRST_NANOS, lease); // it may be gone before
        nextRound = System.nanoTime() + ThreadLocalRandom.current().nextLong(first);
        nextLease = System.nanoTime() + lease;
    }

    /** What to do once a lease, however many nodes there are. */
    void onLease(Runnable also) {
        eachLease = also;
    }

    /** A node is gone, or its lane is: if its name does not come back, it is forgotten soon. */
    void heard(String name) {
        if (gone.size() < MAX_GONE) {
            gone.add(name);
        }
    }

    /** Sweeps for a short time; what is left is for the next turns. */
    void turn() {
        long now = System.nanoTime();
        long until = now + TURN_NANOS;
        try {
            if (now - nextLease >= 0) {
                nextLease = now + lease;
                eachLease.run();
            }
            String name = next();
            while (name != null && !context.state.hasEnded()) {
                Sweep.sweep(context.registry, name);
                name = System.nanoTime() - until < 0 ? next() : null;
            }
        } catch (PosixException | SpeedException error) {
            context.stats.count(Counters.SWEEPS_FAILED);
            lines.warn(LOG, "sweeping the root failed, it is tried again: {}", error.getMessage());
        }
    }

    private String next() throws PosixException {
        for (String name : gone) {
            gone.remove(name);
            return name;
        }
        if (System.nanoTime() - nextRound >= 0) {
            beginRound();
        }
        return round.hasNext() ? round.next() : null;
    }

    /** Looks at the whole registry, unless this is the first time and enough of a crowd that just started do so. */
    private void beginRound() throws PosixException {
        boolean first = isFirst;
        isFirst = false;
        ThreadLocalRandom random = ThreadLocalRandom.current();
        long pause = random.nextLong(lease / 2, lease);
        nextRound = System.nanoTime() + pause; // also if this round fails
        long live = Sweep.writtenWithin(context.registry, lease / 1_000_000);
        nextRound += pause / CROWD * live;
        if (first && random.nextDouble() * live > CROWD) {
            return;
        }
        Sweep.sealFloor(context.registry);
        round = Sweep.leftovers(context.registry, ordinary, UNTOUCHED_MS);
    }

    /** What is left of this node, whose name will not come back, but for what lies in the inboxes of others. */
    void forgetItself() {
        try {
            Sweep.sweep(context.registry, context.name());
        } catch (PosixException | SpeedException error) {
            context.stats.count(Counters.SWEEPS_FAILED); // others do it later
        }
    }
}
