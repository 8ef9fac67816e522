package speed.fs;

import java.util.List;
import java.util.function.IntConsumer;
import speed.core.Lease;
import speed.core.Log;
import speed.errors.LeaseLostException;
import speed.errors.NameTakenException;
import speed.errors.RegistrationException;
import speed.wire.Entry;
import speed.wire.Names;

/**
 * A process that wants a name: claiming it, then publishing its first entry, in the order of R-5.
 *
 * @param lease in ms
 * @param heartbeat in ms
 * @param late ms after a change on another host within which it is seen here
 */
public record Registrant(Registry registry, String name, long lease, long heartbeat, long late,
        List<String> fabrics, List<String> allow) {
    private static final Log LOG = new Log("speed.registry");
    private static final String LANGUAGE = "java";
    private static final String VERSION = "0.1.0";
    private static final List<String> FEATURES = List.of(Entry.SEGMENTS, Entry.WITHDRAW);
    private static final int MAX_ATTEMPTS = 64;
    private static final long WATCH_MS = 50;
    /** How long a claim that tells nothing about its maker is respected without an entry. */
    private static final long UNCLEAR_LEASE = 30_000;

    /** A claim that was won. */
    private record Won(Claim claim, int generation) {}

    /**
     * Claims the name and publishes the entry.
     *
     * @param beforePublish runs with the generation, before anyone can see the entry
     */
    public Registration register(IntConsumer beforePublish) {
        Lease.check(lease, heartbeat, late);
        try {
            Won won = claim();
            try {
                beforePublish.accept(won.generation);
                return publish(won);
            } catch (RuntimeException | Error failure) {
                Claim.release(registry.root(), name, won.generation); // or this process would keep the name from itself
                throw failure;
            }
        } catch (PosixException error) {
            throw new RegistrationException("cannot claim '" + name + "': " + error.getMessage());
        }
    }

    private Registration publish(Won won) {
        long now = System.currentTimeMillis();
        Entry entry = new Entry(name, won.generation, won.claim.maker(), now, now, Posix.monotonicMs(), lease,
                heartbeat, Entry.ONLINE, fabrics, allow, List.of(), LANGUAGE, VERSION, FEATURES);
        Registration registration = new Registration(registry, entry);
        try {
            registration.publish();
            if (won.claim.isExpired(Posix.monotonicMs())) {
                throw new LeaseLostException("registering '" + name + "' took longer than its lease: try again");
            }
        } catch (RuntimeException | Error failure) {
            registration.remove(); // nobody would renew it, or take it away
            throw failure;
        }
        Claim.removeOlder(registry.root(), name, won.generation);
        return registration;
    }

    private Won claim() throws PosixException {
        for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
            int newest = Claim.newest(registry.root(), name);
            Entry entry = waitUntilStale();
            if (newest > 0 && (entry == null || entry.generation() < newest)) {
                respectClaim(newest);
            }
            boolean unchanged = java.util.Objects.equals(registry.read(name), entry)
                    && newest == Claim.newest(registry.root(), name);
            if (unchanged) {
                Claim claim = new Claim(ThisProcess.identity(), lease, Posix.monotonicMs());
                if (!claim.take(registry.root(), name, newest + 1)) {
                    continue;
                }
                if (Claim.newest(registry.root(), name) == newest + 1) {
                    return new Won(claim, newest + 1);
                }
                Claim.release(registry.root(), name, newest + 1); // what was seen before was old: look again
            }
        }
        throw new NameTakenException("'" + name + "' is being claimed by others again and again: try later");
    }

    /** Returns the entry once it is absent (null) or stale; an entry of another boot is watched for a lease. */
    private Entry waitUntilStale() {
        Registry.Judged first = registry.judge(name);
        Registry.Judged seen = first;
        while (seen.entry() != null && seen.verdict() == Lease.Verdict.WATCH && seen.entry().equals(first.entry())
                && !ThisProcess.isGone(seen.entry().process())) {
            pause();
            seen = registry.judge(name);
        }
        Entry entry = seen.entry();
        if (entry == null || seen.verdict() == Lease.Verdict.STALE || ThisProcess.isGone(entry.process())) {
            return entry;
        }
        throw new NameTakenException("'" + name + "' is held by process " + entry.process().pid() + " on "
                + entry.process().host() + " (generation " + entry.generation()
                + "): choose another name, or stop that node");
    }

    /**
     * A claim without an entry: a starting node's, a dead one's, or one that left in order. Returns when it need
     * not be respected any longer. One that says nothing may be just being written: it is read again.
     */
    private void respectClaim(int generation) throws PosixException {
        long began = Posix.monotonicMs();
        boolean told = false;
        while (!Claim.isReleased(registry.root(), name, generation)) {
            Claim claim = Claim.read(registry.root(), name, generation);
            if (claim != null && ThisProcess.isGone(claim.maker())) {
                return;
            }
            if (claim != null && claim.maker().bootId().equals(ThisProcess.bootId())) {
                respectNeighbour(claim, Posix.monotonicMs());
                return;
            }
            Entry entry = registry.read(name);
            long deadline = began + (claim == null ? UNCLEAR_LEASE : claim.lease()) + late;
            if (entry != null && entry.generation() >= generation || Posix.monotonicMs() >= deadline
                    || Claim.newest(registry.root(), name) > generation) {
                return;
            }
            pause(); // the claimant may be on another host: only its entry tells
            if (!told && Posix.monotonicMs() < deadline) {
                tellOfWait(generation, claim, deadline - began);
            }
            told = true;
        }
    }

    /** Once, and not of a claim that was only being written as it was looked at. */
    private void tellOfWait(int generation, Claim claim, long milliseconds) {
        LOG.warn("{} waits up to {} s for its name: the claim {} {}, which may be starting; if nobody is, `chmod 400` it",
                name, (milliseconds + 999) / 1000, Names.claimPath(registry.root(), name, generation),
                claim == null ? "does not tell its maker"
                        : "is of process " + claim.maker().pid() + " on " + claim.maker().host());
    }

    /** A claim of this boot is taken until its lease has passed; then as well if its maker may use another key. */
    private void respectNeighbour(Claim claim, long now) {
        String maker = "process " + claim.maker().pid() + " on " + claim.maker().host();
        if (registry.isUnreadable(name)) {
            throw new NameTakenException("'" + name + "' is held by " + maker
                    + ", whose entry this key does not open: use the key of this root");
        }
        if (!claim.isExpired(now)) {
            throw new NameTakenException(
                    "'" + name + "' is being claimed by " + maker + ": try again soon, or choose another name");
        }
    }

    private static void pause() {
        try {
            Thread.sleep(WATCH_MS);
        } catch (InterruptedException wanted) {
            Thread.currentThread().interrupt();
            throw new RegistrationException("interrupted while waiting for a name");
        }
    }
}
