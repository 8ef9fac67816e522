package speed.internal.fs;

import java.util.Objects;
import java.util.Optional;
import speed.errors.NameTakenException;
import speed.errors.RegistrationException;
import speed.internal.core.Lease;
import speed.internal.core.Log;
import speed.internal.core.Texts;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;

/** Winning a name: the next generation of it, once nobody holds it any more. */
public final class Claiming {
    private static final Log LOG = new Log("speed.registry");
    private static final int MAX_ATTEMPTS = 64;
    private static final long WATCH_MS = 50;
    private static final long SWEEP_LOOK_MS = 5;
    /** How long a claim that tells nothing about its maker is respected without an entry. */
    private static final long UNCLEAR_LEASE = 30_000;

    private final Registry registry;
    private final String root;
    private final String name;
    private final long late;
    private final boolean waits;

    /**
     * Claiming a name.
     *
     * @param late ms after a change on another host within which it is seen here
     * @param waits whether it takes as long as may be needed to find out who has the name
     */
    Claiming(Registry registry, String name, long late, boolean waits) {
        this.registry = registry;
        this.root = registry.root();
        this.name = name;
        this.late = late;
        this.waits = waits;
    }

    /** Claims the next generation; NameTakenException if it is another's, WireException if the floor is altered. */
    WonClaim win(Claimant candidate) throws PosixException {
        for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
            int newest = Claim.newest(root, name);
            Claimant judged = newest > 0 ? Claim.read(root, name, newest, registry.keyring()) : null;
            Entry entry = waitUntilStale();
            if (newest > 0 && (entry == null || entry.generation() < newest) && !isFree(newest)) {
                continue;
            }
            boolean unchanged = Objects.equals(registry.read(name), entry) && newest == Claim.newest(root, name);
            WonClaim won = unchanged ? take(newest, judged, candidate, entry) : null;
            if (won != null) {
                return won;
            }
        }
        throw new NameTakenException("'" + name + "' is being claimed by others again and again: try later");
    }

    /** The highest generation that the name had: somebody may have removed its claims, but not all else that it left. */
    private int used(int newest, Entry entry) throws PosixException {
        if (newest == 0 && entry == null) {
            return Fences.generationLeft(root, name, registry.keyring());
        }
        return entry == null ? newest : Math.max(newest, entry.generation());
    }

    /** The first claim above the newest one, which was judged, what else was used, and the floor; null if others won. */
    private WonClaim take(int newest, Claimant judged, Claimant candidate, Entry entry) throws PosixException {
        Keyring keyring = registry.keyring();
        int floor = FloorFile.of(root, name, keyring);
        int before = used(newest, entry);
        int generation = Math.max(before, floor) + 1;
        Claimant former = Claim.readNewest(root, name, keyring);
        Claimant claimant = candidate.after(former, forgotten(newest, former, floor));
        if (!Claim.take(root, name, generation, claimant, keyring)) {
            return null;
        }
        boolean isWon = false;
        try { // what was seen before was old, or was forgotten meanwhile: look again
            isWon = isStill(newest, judged)
                    && Claim.newest(root, name) == generation
                    && FloorFile.of(root, name, keyring) == floor;
        } finally {
            if (!isWon) {
                Claim.remove(root, name, generation);
            }
        }
        return isWon ? new WonClaim(claimant, generation, before) : null;
    }

    /** Whether the newest claim is the one that was judged: another sweep may have begun under the same number. */
    private boolean isStill(int newest, Claimant judged) throws PosixException {
        return newest == 0
                || Claim.exists(root, name, newest)
                        && Objects.equals(Claim.read(root, name, newest, registry.keyring()), judged);
    }

    /** Up to which generation nothing of the name is accepted any more. */
    private int forgotten(int newest, Claimant former, int floor) throws PosixException {
        if (former == null || former.above() == Claimant.ABSENT) {
            return floor;
        }
        boolean nothingWaits = former.ephemeral() && !Fences.hasUnopened(root, name, registry.keyring());
        return nothingWaits ? newest : former.above();
    }

    /** Returns the entry once it is absent (null) or stale; an entry of another boot is watched for a lease. */
    private Entry waitUntilStale() {
        Registry.Judged first = registry.judge(name);
        Registry.Judged seen = first;
        while (waits
                && seen.entry() != null
                && seen.verdict() == Lease.Verdict.WATCH
                && seen.entry().equals(first.entry())
                && !ThisProcess.isGone(seen.entry().process())) {
            pause(WATCH_MS);
            seen = registry.judge(name);
        }
        Entry entry = seen.entry();
        if (entry == null || seen.verdict() == Lease.Verdict.STALE || ThisProcess.isGone(entry.process())) {
            return entry;
        }
        Entry.Process holder = entry.process();
        throw new NameTakenException(
                holder.equals(ThisProcess.identity())
                        ? Texts.nameTakenHere(name)
                        : Texts.nameTaken(name, String.valueOf(holder.pid()), holder.host()));
    }

    /**
     * Judges a claim without an entry: a starting node's, a dead one's, or one that left in order. True once it need
     * not be respected any longer; false where it ended, and another may follow under the same number. One that says
     * nothing may be just being written: it is read again.
     */
    private boolean isFree(int generation) throws PosixException {
        long began = Posix.monotonicMs();
        boolean isLogged = false;
        while (true) {
            Claimant claimant = Claim.read(root, name, generation, registry.keyring());
            Optional<Boolean> released = Claim.isReleased(root, name, generation);
            if (released.isEmpty()) {
                return false;
            }
            if (released.get() || claimant != null && claimant.isDead()) {
                return true;
            }
            if (claimant != null && claimant.maker().bootId().equals(ThisProcess.bootId())) {
                return respectNeighbour(generation, claimant);
            }
            if (!waits) {
                throw new NameTakenException("'" + name + "' is claimed by a process that cannot be seen from here");
            }
            Entry entry = registry.read(name);
            long deadline = began + (claimant == null ? UNCLEAR_LEASE : claimant.lease()) + late;
            if (entry != null && entry.generation() >= generation
                    || Posix.monotonicMs() >= deadline
                    || Claim.newest(root, name) > generation) {
                return true;
            }
            pause(WATCH_MS); // the claimant may be on another host: only its entry tells
            if (!isLogged && Posix.monotonicMs() < deadline) {
                logWait(generation, claimant, deadline - began);
            }
            isLogged = true;
        }
    }

    /** Once, and not of a claim that was only being written as it was looked at. */
    private void logWait(int generation, Claimant claimant, long milliseconds) {
        LOG.warn(
                "{} waits up to {} s for its name: the claim {} {}, which may be starting; if nobody is, `chmod 400`"
                        + " it",
                name,
                (milliseconds + 999) / 1000,
                Names.claimPath(root, name, generation),
                claimant == null ? "does not tell its maker" : "is of " + claimant);
    }

    /** As isFree: a claim of this boot is taken until its lease has passed; then as well if its maker may use another key. */
    private boolean respectNeighbour(int generation, Claimant claimant) throws PosixException {
        if (claimant.sweeps() && waits && claimant.holds(Posix.monotonicMs())) {
            awaitSweeper(generation, claimant);
            return false;
        }
        if (registry.isUnreadable(name)) {
            throw new NameTakenException("'" + name + "' is held by " + claimant
                    + ", whose entry this key does not open: use the key of this root");
        }
        long now = Posix.monotonicMs();
        if (claimant.sweeps() ? claimant.holds(now) : !claimant.isExpired(now)) {
            throw new NameTakenException(
                    "'" + name + "' is being claimed by " + claimant + ": try again soon, or choose another name");
        }
        return true;
    }

    /** Until it is done; it is not pushed aside, for it would remove what its successor makes. */
    private void awaitSweeper(int generation, Claimant sweeper) throws PosixException {
        long until = Posix.monotonicMs() + (long) (Limits.SWEEP_SECONDS * 1000);
        while (Claim.newest(root, name) == generation && sweeper.holds(Posix.monotonicMs())) {
            if (Posix.monotonicMs() >= until) {
                throw new NameTakenException(sweeper + " is removing what is left of '" + name + "': try again later");
            }
            pause(SWEEP_LOOK_MS); // it is gone within milliseconds, and nothing tells
        }
    }

    private static void pause(long milliseconds) {
        if (!Posix.pause(milliseconds)) {
            throw new RegistrationException("interrupted while waiting for a name");
        }
    }

    /**
     * A claim of this process.
     *
     * @param former the highest generation that was used before, 0 where there was none
     */
    public record WonClaim(Claimant claimant, int generation, int former) {}

    /**
     * A name that is held to remove what is left of it: nobody starts under it meanwhile. NameTakenException if it is
     * alive or starting, or nobody can tell at once.
     */
    static final class SweepHold implements AutoCloseable {
        /** By far longer than sweeping takes: on another host, whoever waits so long takes the name. */
        private static final long LEASE = 600_000;

        private final String root;
        private final String name;
        private final WonClaim won;

        SweepHold(Registry registry, String name) throws PosixException {
            this.root = registry.root();
            this.name = name;
            won = new Claiming(registry, name, 0, false).win(Claimant.sweeping(LEASE));
        }

        /** Whether the last life of the name was ephemeral. */
        boolean isEphemeral() {
            return won.claimant().ephemeral();
        }

        int generation() {
            return won.generation();
        }

        /** The highest number that was claimed before. */
        int former() {
            return won.former();
        }

        @Override
        public void close() {
            Claim.remove(root, name, won.generation());
        }
    }
}
