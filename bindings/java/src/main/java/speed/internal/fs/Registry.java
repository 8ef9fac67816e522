package speed.internal.fs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;
import speed.errors.StorageException;
import speed.errors.WireException;
import speed.internal.core.Lease;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Block;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;

/** The registry of one root as one process sees it: entries as they are, their verdicts. Thread-safe. */
public final class Registry {
    /** A file read so soon after its mtime may have changed again under the same mtime (coarse clocks). */
    private static final long RACY_NANOS = 20_000_000;

    private static final int TORN_READS = 3;
    /** How long what was seen counts as what is: a burst of sends looks once. */
    private static final long FRESH_NANOS = 1_000_000;

    /** An entry and whether it holds; both nothing (null, STALE) where there is no authentic one. */
    public record Judged(Entry entry, Lease.Verdict verdict) {
        static final Judged ABSENT = new Judged(null, Lease.Verdict.STALE);

        /** Whether there is an entry whose node is gone. */
        boolean isOver() {
            return entry != null && (verdict == Lease.Verdict.STALE || ThisProcess.isGone(entry.process()));
        }
    }

    /** What was read under one stamp of an entry file, and since when it is unchanged. */
    private static final class Known {
        final long inode;
        final long modified;
        final long size;
        /** Whether the stamp was old when the file was read: only then can no write hide behind it. */
        final boolean settled;

        final Entry entry;
        /** It was judged by these, and is read again once there are others. */
        final Keyring.Keys keys;

        final long since;
        volatile long freshUntil;

        Known(FileStatus status, boolean settled, Entry entry, Keyring.Keys keys, long since) {
            this.inode = status.inode();
            this.modified = status.modifiedNanos();
            this.size = status.size();
            this.settled = settled;
            this.entry = entry;
            this.keys = keys;
            this.since = since;
        }

        boolean isStill(FileStatus status) {
            return settled && inode == status.inode() && modified == status.modifiedNanos() && size == status.size();
        }
    }

    private final String root;
    private final Keyring keyring;
    private final Map<String, Known> known = new ConcurrentHashMap<>();
    /** Those known names under which lies no entry. */
    private final Set<String> junk = ConcurrentHashMap.newKeySet();

    public Registry(String root, Keyring keyring) {
        this.root = root;
        this.keyring = keyring;
    }

    /** RootException for a root that others can change. */
    public static void check(String root) {
        Root.check(root);
    }

    public String root() {
        return root;
    }

    public Keyring keyring() {
        return keyring;
    }

    /** Makes root and registry directories where they are missing; RootException says what is wrong and what to do. */
    public void prepare() {
        Root.prepare(root);
    }

    // --- reading ---

    /**
     * The entry of a name as it is on disk now, live or stale; null if there is no authentic one. Throws where the
     * system keeps from seeing it: then it is not absent.
     */
    Entry read(String name) throws PosixException {
        Known found = lookNow(name);
        return found == null ? null : found.entry;
    }

    /** Whether there is a file that should be the entry of a name, but is not authentic. */
    boolean isUnreadable(String name) {
        Known found = look(name);
        return found != null && found.entry == null;
    }

    /** StorageException if the registry is gone. */
    public void checkThere() {
        Root.checkRegistry(root, 0);
    }

    /** Why there is no live node of a name, and what to do. StorageException if the registry is gone. */
    public String absence(String name) {
        checkThere();
        checkReadable(name);
        return isUnreadable(name)
                ? "the entry of '" + name + "' is not authentic: use the key of " + root
                        + ", or see `speed root doctor`"
                : "no live node named '" + name + "' in " + root + ": start it, or see `speed nodes`";
    }

    /** StorageException where the system keeps from knowing whether there is an entry: then it is not absent. */
    public void checkReadable(String name) {
        try {
            lookNow(name);
        } catch (PosixException error) {
            throw new StorageException(
                    "the entry of '" + name + "' in " + root + " cannot be read: "
                            + error.getMessage()
                            + "; nothing was sent, free what this process holds open or raise its limits,"
                            + " or see `speed root doctor`",
                    0);
        }
    }

    /** What cannot be seen now counts as it was seen last. */
    private Known look(String name) {
        try {
            return lookNow(name);
        } catch (PosixException unseen) {
            return known.get(name);
        }
    }

    private Known lookNow(String name) throws PosixException {
        String path = Names.entryPath(root, Names.checkNode(name));
        FileStatus status = statusOf(path);
        if (status == null) {
            forget(name);
            return null;
        }
        if (!Entry.isCapacity(status.size())) {
            forget(name);
            return new Known(
                    status, true, null, keyring.now(), 0); // what it is not, its size tells: nothing to remember
        }
        Known before = known.get(name);
        if (before != null && before.isStill(status) && before.keys == keyring.now()) {
            return before;
        }
        Known now = readNow(name, path, status, before);
        remember(name, now);
        return now;
    }

    private Known readNow(String name, String path, FileStatus status, Known before) throws PosixException {
        Keyring.Keys keys = keyring.now();
        boolean settled = System.currentTimeMillis() * 1_000_000 - status.modifiedNanos() > RACY_NANOS;
        Entry entry = null;
        try {
            entry = readEntry(name, path);
        } catch (PosixException unreadable) {
            rethrowFailing(unreadable);
            settled = false; // the same file may be readable the next time
        }
        boolean unchanged = before != null && entry != null && entry.equals(before.entry);
        return new Known(status, settled, entry, keys, unchanged ? before.since : Posix.monotonicMs());
    }

    /** Null where there is nothing. */
    private static FileStatus statusOf(String path) throws PosixException {
        try {
            return Posix.status(Posix.AT_FDCWD, path);
        } catch (PosixException absent) {
            rethrowFailing(absent);
            return null;
        }
    }

    private static void rethrowFailing(PosixException error) throws PosixException {
        if (error.saysFailed()) {
            throw error;
        }
    }

    private void forget(String name) {
        known.remove(name);
        junk.remove(name);
    }

    /** Entries, and of what is none so much that most registries are read once only. */
    private void remember(String name, Known now) {
        if (now.entry != null) {
            junk.remove(name);
        } else if (!junk.contains(name)) {
            if (junk.size() >= Limits.MAX_REMEMBERED_JUNK) {
                known.remove(name);
                return;
            }
            junk.add(name);
        }
        known.put(name, now);
    }

    /** The authentic entry of a node; new keys are looked for where the present ones do not fit. */
    private Entry readEntry(String name, String path) throws PosixException {
        Keyring.Keys keys = keyring.now();
        Entry entry = tryEntry(name, path);
        if (entry == null) {
            keyring.look();
            entry = keyring.now() == keys ? null : tryEntry(name, path);
        }
        return entry;
    }

    /** A heartbeat may be half written: an entry whose MAC fails is read again. */
    private Entry tryEntry(String name, String path) throws PosixException {
        for (int attempt = 0; attempt < TORN_READS; attempt++) {
            try {
                Entry entry = Entry.decode(EntryFile.read(path), keyring.registryKeys());
                return entry.name().equals(name) ? entry : null;
            } catch (WireException torn) {
                continue;
            }
        }
        return null;
    }

    /** The entry of a name and whether it holds. */
    public Judged judge(String name) {
        long now = Posix.monotonicMs();
        Known found = look(name);
        return found == null || found.entry == null ? Judged.ABSENT : new Judged(found.entry, judge(found, now));
    }

    /** The process is looked at only once a heartbeat is overdue. */
    private static Lease.Verdict judge(Known found, long now) {
        Entry entry = found.entry;
        Lease.Verdict fresh = Lease.judge(entry, ThisProcess.bootId(), now, false, now - found.since);
        boolean overdue = now - entry.heartbeatMonotonicMs() >= entry.times().heartbeatInterval();
        boolean gone = fresh == Lease.Verdict.LIVE && overdue && ThisProcess.isGone(entry.process());
        return gone ? Lease.Verdict.STALE : fresh;
    }

    /**
     * The entry of a name if it was live and allowed the sender, with its identity, at most 1 ms ago. Null says only that somebody
     * must look more closely before refusing.
     */
    public Entry granting(String name, String sender, String fingerprint) {
        long now = System.nanoTime();
        Known found = known.get(name);
        if (found == null || now - found.freshUntil >= 0 || found.freshUntil == 0) {
            if (live(name) == null) {
                return null;
            }
            found = known.get(name);
            if (found == null) {
                return null;
            }
            found.freshUntil = now + FRESH_NANOS;
        }
        return found.entry != null && found.entry.grants(sender, fingerprint) ? found.entry : null;
    }

    /** The entry of a name if its node may be alive, else null. */
    public Entry live(String name) {
        Judged judged = judge(name);
        return judged.verdict == Lease.Verdict.STALE ? null : judged.entry;
    }

    /** Whether a node is known not to be alive, its process looked at even while its heartbeat is young. */
    public boolean isGone(String name) {
        return surelyLive(name) == null;
    }

    /** The entry of a node whose process is there, however young its heartbeat is; null if none is. */
    public Entry surelyLive(String name) {
        Entry entry = live(name);
        return entry == null || ThisProcess.isGone(entry.process()) ? null : entry;
    }

    /** Whether the process of a generation of a node is known to be gone, or left in order; it may be null. */
    public boolean isOver(String name, int generation, Entry.Process process) {
        if (process != null && ThisProcess.isGone(process)) {
            return true;
        }
        try {
            return Claim.isReleased(root, name, generation).orElse(false);
        } catch (PosixException unseen) {
            return false;
        }
    }

    /** Whether a node of a generation may still write: its entry is live, and its process there. */
    public boolean isWriting(String name, int generation) {
        Entry entry = surelyLive(name);
        return entry != null && entry.generation() == generation;
    }

    /** Entries of nodes that may be alive, sorted by name; StorageException where they cannot be listed. */
    public List<Entry> liveEntries() {
        return entries(this::live);
    }

    /** Likewise, their processes looked at even while their heartbeats are young. */
    public List<Entry> surelyLiveEntries() {
        return entries(this::surelyLive);
    }

    private List<Entry> entries(Function<String, Entry> look) {
        List<Entry> entries = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        forEachName(name -> {
            Entry entry = look.apply(name);
            if (entry != null) {
                entries.add(entry);
            }
            if (known.containsKey(name)) {
                seen.add(name);
            }
        });
        known.keySet().retainAll(seen); // files that are gone need no memory
        junk.retainAll(seen);
        entries.sort(Comparator.comparing(Entry::name));
        return entries;
    }

    /** Whether an entry has been stale for a lease. */
    boolean isAbandoned(String name) {
        long now = Posix.monotonicMs();
        Known found = look(name);
        if (found == null || found.entry == null || judge(found, now) != Lease.Verdict.STALE) {
            return false;
        }
        long age = now - found.entry.heartbeatMonotonicMs();
        boolean isNeighbour = found.entry.process().bootId().equals(ThisProcess.bootId()) && age >= 0;
        return (isNeighbour ? age : now - found.since) > 2 * found.entry.lease();
    }

    /** All names that have a file where their entry would be. */
    public Set<String> names() {
        Set<String> names = new HashSet<>();
        forEachName(names::add);
        return names;
    }

    private void forEachName(Consumer<String> take) {
        try (Directory directory = Directory.open(Names.registryDirectory(root))) {
            directory.forEachName(file -> {
                String name = Names.parseEntry(file);
                if (name != null) {
                    take.accept(name);
                }
            });
        } catch (PosixException error) {
            checkThere();
            throw new StorageException(
                    "cannot list the nodes of " + root + ": " + error.getMessage()
                            + "; try again, or see `speed root doctor`",
                    0);
        }
    }

    /**
     * Removes entries of nodes that are gone, never their claims; returns their names. Those of names that do not
     * come back stay: all that is left of such a name goes together. StorageException where they cannot be listed.
     */
    public List<String> removeStale() {
        List<String> removed = new ArrayList<>();
        forEachName(name -> {
            Judged judged = judge(name);
            if (judged.isOver() && !judged.entry.ephemeral()) {
                removeUnchanged(judged.entry);
                removed.add(name);
            }
        });
        removed.sort(null);
        return removed;
    }

    /** The same for one node, whatever it says of its name. */
    boolean removeStale(String name) {
        Judged judged = judge(name);
        if (judged.isOver()) {
            removeUnchanged(judged.entry);
        }
        return judged.isOver();
    }

    private void removeUnchanged(Entry entry) {
        try {
            EntryFile.remove(root, entry.name(), path -> {
                try {
                    return Entry.decode(EntryFile.read(path), keyring.registryKeys())
                            .equals(entry);
                } catch (PosixException | WireException changed) {
                    return false;
                }
            });
        } catch (PosixException error) {
            // it stays and is stale: the next one to look tries again
        }
    }

    /** The file of an entry: read without trust, removed only while it is the one that was meant. */
    static final class EntryFile {
        private EntryFile() {}

        /** A regular file's bytes; follows no link, never waits, never reads more than an entry may have. */
        static byte[] read(String path) throws PosixException {
            int file = Posix.open(path, Posix.O_RDONLY | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
            try {
                FileStatus status = Posix.status(file);
                if (!status.isRegular() || status.size() > Limits.MAX_ENTRY_BYTES) {
                    throw new WireException("BAD_ENTRY", "no regular file, or too large");
                }
                Block data = new Block((int) Math.max(1, status.size()));
                return data.copy(0, Posix.read(file, data, data.size, 0));
            } finally {
                Posix.close(file);
            }
        }

        /**
         * Removes the entry of a name if the path is said to lead to the one that is meant.
         *
         * <p>No call unlinks a file by its identity, and a new owner may publish at any time. So the file moves to a name
         * that nobody else knows, is looked at there, and is put back if it became another's.
         */
        static void remove(String root, String name, Predicate<String> isMeant) throws PosixException {
            String path = Names.entryPath(root, name);
            if (!isMeant.test(path)) {
                return;
            }
            String aside = Names.registryDirectory(root) + "/" + Directory.uniqueName(name);
            Posix.putInPlace(Posix.AT_FDCWD, path, aside);
            if (!isMeant.test(aside)) { // nor is it if somebody else removed it first
                putBack(aside, path);
            }
            Posix.removeQuietly(aside);
        }

        /** Gives an entry its name again, unless its owner has published a newer one by now. */
        private static void putBack(String aside, String path) {
            try {
                Posix.link(aside, path);
            } catch (PosixException newer) {
                // a newer one is there, or no links are: then the owner's next heartbeat publishes again
            }
        }
    }
}
