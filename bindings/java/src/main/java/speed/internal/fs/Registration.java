package speed.internal.fs;

import java.util.List;
import java.util.function.UnaryOperator;
import speed.errors.LeaseLostException;
import speed.errors.SpeedException;
import speed.errors.StorageException;
import speed.internal.GuardedBy;
import speed.internal.core.AccessPolicy;
import speed.internal.core.Lease;
import speed.internal.fs.Registry.EntryFile;
import speed.internal.wire.Block;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;

/**
 * A node's own entry: publishing, heartbeats, leaving. Thread-safe by its own monitor;
 * no other lock is taken under it.
 */
public final class Registration {
    private final Registry registry;
    private final String path;
    private final Lease lease;
    private final Claimant claimant;
    private volatile long claimsRestored;
    private volatile Entry entry;

    @GuardedBy("this")
    private int descriptor = -1;

    @GuardedBy("this")
    private int capacity;

    private volatile Keyring.Keys keys;

    Registration(Registry registry, Entry entry, Claimant claimant) {
        this.registry = registry;
        this.claimant = claimant;
        this.entry = entry;
        path = Names.entryPath(registry.root(), entry.name());
        lease = new Lease(entry.lease(), entry.heartbeatMonotonicMs());
    }

    public Entry entry() {
        return entry;
    }

    /** Makes the entry visible; LeaseLostException if a newer claim exists by then. */
    synchronized void publish() {
        checkClaim();
        install(entry);
        checkClaim();
    }

    /** A successor was seen at work: nothing is written any more, and the next heartbeat says so. */
    public void replaced() {
        lease.lose();
    }

    /** Whether the lease ran out, noticed or not. */
    public boolean isOver() {
        return lease.mustStop(Posix.monotonicMs());
    }

    /** LeaseLostException once the lease ran out; called before every write of an envelope, so it is quick. */
    public void checkHeld() {
        if (isOver()) {
            throw lost("its lease ran out before it could be renewed");
        }
    }

    /** The same after a write: its receiver may have given it up. */
    public void checkStillHeld() {
        if (isOver()) {
            throw lost("its lease ran out while it wrote, and what it wrote may not have been delivered: "
                    + "ask the receiver before you send it again");
        }
    }

    /**
     * Renews the lease: one write in place; nothing once the entry was removed. LeaseLostException when the name
     * is another's.
     */
    public synchronized void heartbeat() throws PosixException {
        if (descriptor < 0) {
            return;
        }
        checkHeld();
        long written = Posix.monotonicMs();
        write(entry.renewed(System.currentTimeMillis(), written));
        checkHeld(); // when the write ended after the old lease, an observer may have reclaimed meanwhile
        lease.renew(written);
        try {
            restoreClaim();
        } catch (PosixException unmade) {
            // the next one tries again
        }
    }

    /** How often somebody removed the claim, and it was made again. */
    public long claimsRestored() {
        return claimsRestored;
    }

    /** Makes the own claim again if somebody removed it: a later life would begin with a generation that was used. */
    private void restoreClaim() throws PosixException {
        String root = registry.root();
        if (Claim.exists(root, entry.name(), entry.generation())) {
            return;
        }
        Directory.makeIfAbsent(Names.claimsDirectory(root));
        checkClaim();
        if (Claim.take(root, entry.name(), entry.generation(), claimant, registry.keyring())) {
            claimsRestored++;
        }
    }

    /** Publishes other grants, subscriptions or status; they are on disk when this returns. */
    public synchronized void update(UnaryOperator<Entry> change) {
        if (descriptor < 0) {
            return;
        }
        try {
            write(change.apply(entry));
        } catch (PosixException error) {
            registry.checkThere();
            throw new StorageException("cannot update the entry of '" + entry.name() + "': " + error.getMessage(), 0);
        }
    }

    /** It serves from now on. */
    public void ready() {
        update(now -> now.isStarting() ? now.publishing(now.published().with(Entry.ONLINE)) : now);
    }

    /** Publishes the grants in force, what is excepted from them, and who may look. */
    public void allow(AccessPolicy policy) {
        update(now -> now.publishing(
                now.published().granting(policy.allowed(), policy.denied(), policy.identities(), policy.observers())));
    }

    public void subscribe(List<String> patterns, List<String> shared) {
        update(now -> now.publishing(now.published().subscribing(patterns, shared)));
    }

    /** What could not be written is not said by the next heartbeat either. */
    @GuardedBy("this")
    private void write(Entry changed) throws PosixException {
        byte[] data = encoded(changed);
        if (data.length != capacity || !isAt(path)) {
            checkClaim();
            install(changed);
        } else {
            Posix.writeAt(descriptor, Block.of(data), data.length, 0);
        }
        entry = changed;
    }

    /** Under the first key of now. */
    @GuardedBy("this")
    private byte[] encoded(Entry shown) {
        keys = registry.keyring().now();
        return shown.encode(keys, capacity);
    }

    /** Whether the keys changed since the entry was written: a heartbeat mends that. */
    public boolean hasNewKeys() {
        return keys != registry.keyring().now();
    }

    /** Whether a path leads to this entry's file. */
    @GuardedBy("this")
    private boolean isAt(String place) {
        try {
            return Posix.status(Posix.AT_FDCWD, place).inode()
                    == Posix.status(descriptor).inode();
        } catch (PosixException gone) {
            return false;
        }
    }

    private void checkClaim() {
        try {
            int newest = Claim.newest(registry.root(), entry.name());
            if (newest > entry.generation()) {
                lease.lose();
                throw lost("generation " + newest + " was claimed");
            }
        } catch (PosixException error) {
            throw new StorageException("cannot read the claims of '" + entry.name() + "': " + error.getMessage(), 0);
        }
    }

    private LeaseLostException lost(String why) {
        return new LeaseLostException("'" + entry.name() + "' (generation " + entry.generation() + ") lost its name: "
                + why + "; close this node and make a new one");
    }

    /** Writes the entry beside and renames it into place. */
    @GuardedBy("this")
    private void install(Entry shown) {
        byte[] data = encoded(shown);
        String token = entry.name() + "-" + Posix.pid() + "-" + entry.generation();
        String temporary = Names.temporaryEntryPath(registry.root(), token);
        int file = -1;
        try {
            file = Directory.openOrMake(temporary, Posix.O_RDWR | Posix.O_TRUNC);
            Posix.writeAll(file, data);
            Posix.putInPlace(Posix.AT_FDCWD, temporary, path);
        } catch (PosixException error) {
            Posix.close(file);
            Posix.removeQuietly(temporary);
            throw new StorageException("cannot publish the entry of '" + entry.name() + "': " + error.getMessage(), 0);
        }
        Posix.close(descriptor);
        descriptor = file;
        capacity = data.length;
    }

    /** Leaves: removes the entry if it is still this one, releases the claim. */
    public synchronized void remove() {
        if (descriptor < 0) {
            return;
        }
        try {
            if (isAt(path)) { // else the whole root may be gone
                restoreClaim();
            }
        } catch (PosixException | SpeedException unmade) {
            // a later life finds its number by what else is left
        }
        try {
            EntryFile.remove(registry.root(), entry.name(), this::isAt);
        } catch (PosixException error) {
            // the entry stays without its process, hence stale
        }
        Claim.release(registry.root(), entry.name(), entry.generation());
        abandon();
    }

    /** Leaves for good: the entry stays, stale for everybody, until it is swept. */
    public synchronized void expire() {
        try {
            update(Entry::expired);
        } catch (SpeedException unpublished) {
            // it is stale after a lease
        }
        Claim.release(registry.root(), entry.name(), entry.generation());
        abandon();
    }

    /** Releases the descriptor without touching the entry: the name is lost. */
    public synchronized void abandon() {
        Posix.close(descriptor);
        descriptor = -1;
    }
}
