package speed.internal.fs;

import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import speed.errors.NameTakenException;
import speed.internal.fs.Claiming.SweepHold;
import speed.internal.wire.Names;

/**
 * What nodes that are gone left in a root, removed by whoever comes by. What cannot be done now, for which
 * there is an exception, is done another time, from wherever it ended.
 */
public final class Sweep {
    private static final int MAX_NODES = 1 << 20;

    private Sweep() {}

    /** Removes an entry that has been stale for a lease, or all of a name that does not come back; whether it was. */
    public static boolean sweep(Registry registry, String name) throws PosixException {
        if (!isForgettable(registry, name)) {
            Registry.Judged judged = registry.judge(name);
            boolean goesAlone = judged.entry() != null && !judged.entry().ephemeral() && registry.isAbandoned(name);
            return goesAlone && registry.removeStale(name);
        }
        try {
            return forget(registry, name);
        } catch (NameTakenException another) {
            return false; // somebody else sweeps, or starts
        }
    }

    /** The newest claimed generation of each name that has claims. */
    public static Map<String, Integer> newestClaims(Registry registry) throws PosixException {
        return Claim.newestOfAll(registry.root());
    }

    /** Whether a name will not come back: its newest claim, by a listing, says so, or was removed since. */
    public static boolean mayBeEphemeral(Registry registry, String name, int newest) throws PosixException {
        Claimant last = newest == 0 ? null : Claim.read(registry.root(), name, newest, registry.keyring());
        return newest > 0 && (last == null || last.ephemeral());
    }

    /** Whether the newest claim of a name says that it will not come back; that of somebody who just sweeps it too. */
    private static boolean isEphemeral(Registry registry, String name) throws PosixException {
        Claimant last = Claim.readNewest(registry.root(), name, registry.keyring());
        return last != null && last.ephemeral();
    }

    /** Whether the last life of a name was ephemeral, and is over. */
    private static boolean isForgettable(Registry registry, String name) throws PosixException {
        int newest = Claim.newest(registry.root(), name);
        if (!isEphemeral(registry, name)) {
            return false;
        }
        Registry.Judged judged = registry.judge(name);
        if (judged.entry() != null && judged.entry().generation() == newest) {
            return judged.isOver();
        }
        Claimant claimant = Claim.read(registry.root(), name, newest, registry.keyring());
        return Claim.isReleased(registry.root(), name, newest).orElse(true) || claimant != null && claimant.isDead();
    }

    /**
     * Removes all that is left of an ephemeral name; false while an inbox holds a lane of it, or its entry stays.
     * NameTakenException if somebody has the name, or takes it.
     */
    static boolean forget(Registry registry, String name) throws PosixException {
        String root = registry.root();
        try (SweepHold hold = new SweepHold(registry, name)) {
            if (!hold.isEphemeral()) {
                return false;
            }
            Directory.removeTree(Names.nodeDirectory(root, name));
            if (hasLanes(root, name)) {
                return false;
            }
            FloorFile.raise(root, name, hold.former(), registry.keyring());
            registry.removeStale(name);
            if (registry.read(name) != null) {
                return false; // without a claim nobody would come back to it
            }
            Claim.removeOlder(root, name, hold.generation());
            return true;
        }
    }

    /** Whether any inbox holds a lane of a name; one that cannot be looked into counts as one that does. */
    static boolean hasLanes(String root, String name) throws PosixException {
        try (Directory directory = Directory.open(root)) {
            return directory.names(MAX_NODES).stream()
                    .map(Directory.Name::name)
                    .anyMatch(node -> Names.isNode(node) && isThere(Names.laneDirectory(root, node, name)));
        }
    }

    private static boolean isThere(String path) {
        try {
            Posix.status(Posix.AT_FDCWD, path);
            return true;
        } catch (PosixException error) {
            return !error.is(PosixException.ENOENT) && !error.is(PosixException.ENOTDIR);
        }
    }

    // --- what to look at ---

    /** Has the floor made by the first key, so that an older one can be retired. */
    public static void sealFloor(Registry registry) throws PosixException {
        FloorFile.sealAnew(registry.root(), registry.keyring());
    }

    /**
     * Names that something may be left of; each is looked at when its turn comes.
     *
     * @param ordinary remembers generations that stay, between two looks
     * @param untouchedMs entries that were written since are passed over: most nodes are alive
     */
    public static Iterator<String> leftovers(Registry registry, Map<String, Integer> ordinary, long untouchedMs)
            throws PosixException {
        Map<String, Integer> claims = Claim.newestOfAll(registry.root());
        Set<String> entries = registry.names();
        claims.keySet().removeAll(entries);
        ordinary.keySet().retainAll(claims.keySet());
        Stream<String> stale = entries.stream().filter(name -> untouchedFor(registry, name) >= untouchedMs);
        Stream<String> bare =
                claims.keySet().stream().filter(name -> mayGo(registry, name, claims.get(name), ordinary));
        return Stream.concat(stale, bare).iterator();
    }

    /** How many entries were written in the last milliseconds: those of live nodes, and of few others. */
    public static long writtenWithin(Registry registry, long milliseconds) throws PosixException {
        return registry.names().stream()
                .filter(name -> untouchedFor(registry, name) < milliseconds)
                .count();
    }

    /** Milliseconds since an entry was written, by the wall clock: good for a hint only. */
    private static long untouchedFor(Registry registry, String name) {
        try {
            long modified = Posix.status(Posix.AT_FDCWD, Names.entryPath(registry.root(), name))
                    .modifiedNanos();
            return Math.abs(System.currentTimeMillis() - modified / 1_000_000);
        } catch (PosixException gone) {
            return 0;
        }
    }

    /** Whether a claim without an entry may be of a name that does not come back; those of others are remembered. */
    private static boolean mayGo(Registry registry, String name, int newest, Map<String, Integer> ordinary) {
        if (ordinary.getOrDefault(name, 0) == newest) {
            return false;
        }
        try {
            if (isEphemeral(registry, name)) {
                return true;
            }
            ordinary.put(name, newest);
        } catch (PosixException unread) {
            // the next round looks again
        }
        return false;
    }
}
