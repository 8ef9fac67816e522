package speed.internal.fs;

import java.util.List;
import java.util.function.Consumer;
import speed.errors.LeaseLostException;
import speed.errors.RegistrationException;
import speed.errors.StorageException;
import speed.errors.WireException;
import speed.internal.core.AccessPolicy;
import speed.internal.core.Lease;
import speed.internal.fs.Claiming.WonClaim;
import speed.internal.wire.Entry;
import speed.internal.wire.Names;

/**
 * A process that wants a name: it claims the name, then publishes its first entry.
 *
 * @param lease in ms
 * @param heartbeat in ms
 * @param late ms after a change on another host within which it is seen here
 * @param policy whom it lets write and look
 * @param ephemeral whether the name will not come back
 * @param starting whether it does not serve yet
 * @param identity the card of the node; empty without one
 */
public record Registrant(
        Registry registry,
        String name,
        long lease,
        long heartbeat,
        long late,
        List<String> fabrics,
        AccessPolicy policy,
        boolean ephemeral,
        boolean starting,
        String identity) {
    private static final String LANGUAGE = "java";
    private static final String VERSION = "0.1.0";
    private static final List<String> FEATURES = List.of(Entry.SEGMENTS, Entry.WITHDRAW, Entry.SLOTS, Entry.STREAMS);

    /**
     * Claims the name and publishes the entry.
     *
     * @param beforePublish runs with the claim, before anyone can see the entry
     */
    public Registration register(Consumer<WonClaim> beforePublish) {
        return register(beforePublish, () -> {});
    }

    /**
     * The same.
     *
     * @param afterPublish what may still refuse: then the entry is taken back
     */
    public Registration register(Consumer<WonClaim> beforePublish, Runnable afterPublish) {
        Lease.check(lease, heartbeat, late);
        WonClaim won = claim();
        try {
            beforePublish.accept(won);
            return publish(won, afterPublish);
        } catch (RuntimeException | Error failure) {
            Claim.release(registry.root(), name, won.generation()); // or this process would keep the name from itself
            throw failure;
        }
    }

    private WonClaim claim() {
        try {
            return new Claiming(registry, name, late, true).win(Claimant.starting(lease, ephemeral));
        } catch (PosixException error) {
            throw new StorageException("cannot claim '" + name + "': " + error.getMessage(), 0);
        } catch (WireException altered) {
            throw new RegistrationException(
                    "cannot claim '" + name + "': " + Names.claimsDirectory(registry.root()) + "/"
                            + Names.FLOOR + ": " + altered.getMessage()
                            + ": use the key of this root, or restore that file from a backup of the root");
        }
    }

    private Registration publish(WonClaim won, Runnable afterPublish) {
        long now = System.currentTimeMillis();
        Entry entry = new Entry(
                name,
                won.generation(),
                won.claimant().maker(),
                new Entry.Times(now, now, Posix.monotonicMs(), lease, heartbeat),
                new Entry.Published(
                        starting ? Entry.STARTING : Entry.ONLINE,
                        fabrics,
                        policy.allowed(),
                        policy.denied(),
                        List.of(),
                        List.of(),
                        policy.identities(),
                        policy.observers()),
                LANGUAGE,
                VERSION,
                FEATURES,
                ephemeral,
                identity);
        Registration registration = new Registration(registry, entry, won.claimant());
        try {
            registration.publish();
            afterPublish.run();
            if (won.claimant().isExpired(Posix.monotonicMs())) {
                throw new LeaseLostException("registering '" + name + "' took longer than its lease: try again");
            }
        } catch (RuntimeException | Error failure) {
            registration.remove(); // nobody would renew it, or take it away
            throw failure;
        }
        Claim.removeOlder(registry.root(), name, won.generation());
        return registration;
    }
}
