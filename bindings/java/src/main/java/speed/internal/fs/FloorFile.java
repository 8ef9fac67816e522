package speed.internal.fs;

import java.util.List;
import speed.errors.StorageException;
import speed.errors.WireException;
import speed.internal.wire.Floor;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;

/** The file of the floor: read by who claims a name, raised by who forgets one. WireException if it is altered. */
final class FloorFile {
    /** Who renews a lease waits for it. */
    private static final long LOCK_MS = 1_000;

    private static final long LOOK_MS = 10;

    /** How the floor is changed. */
    private interface Change {
        Floor of(Floor floor);
    }

    private FloorFile() {}

    /** The highest generation that may have been forgotten of a name. */
    static int of(String root, String name, Keyring keyring) throws PosixException {
        return read(root, keyring.registryKeys()).of(name);
    }

    /** Nothing of the lives of a name up to this generation is accepted any more. */
    static int forgottenUpTo(String root, String name, Keyring keyring) throws PosixException {
        try {
            Claimant claimant = Claim.readNewest(root, name, keyring);
            boolean isKnown = claimant != null && claimant.above() != Claimant.ABSENT;
            return isKnown ? claimant.above() : of(root, name, keyring);
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return 0; // nobody ever registered here
            }
            throw error;
        }
    }

    /** Makes it so high at least; it is on disk when this returns. StorageException while others hold the lock. */
    static void raise(String root, String name, int generation, Keyring keyring) throws PosixException {
        change(root, keyring, floor -> floor.of(name) >= generation ? null : floor.raised(name, generation));
    }

    /** Has the floor made by the first key, so that an older one can be retired. */
    static void sealAnew(String root, Keyring keyring) throws PosixException {
        try {
            read(root, keyring.registryKeys().subList(0, 1));
        } catch (WireException byAnother) {
            change(root, keyring, floor -> floor);
        }
    }

    private static Floor read(String root, List<byte[]> registryKeys) throws PosixException {
        try (Directory claims = Directory.open(Names.claimsDirectory(root))) {
            return Floor.decode(claims.readSmall(Names.FLOOR, Floor.BYTES + 1), registryKeys);
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return Floor.NONE;
            }
            throw error;
        }
    }

    /** Writes what a change makes of the floor, unless that is null, under the lock. */
    private static void change(String root, Keyring keyring, Change change) throws PosixException {
        try (Directory claims = Directory.open(Names.claimsDirectory(root))) {
            int lock = claims.openOwn(Names.FLOOR_LOCK);
            try {
                awaitLock(lock, root);
                Floor changed = change.of(read(root, keyring.registryKeys()));
                if (changed != null) {
                    Posix.close(claims.replace(
                            Names.FLOOR, changed.encode(keyring.registryKeys().get(0)), true));
                    Directory.sync(Names.claimsDirectory(root));
                }
            } finally {
                Posix.close(lock);
            }
        }
    }

    private static void awaitLock(int lock, String root) throws PosixException {
        long until = Posix.monotonicMs() + LOCK_MS;
        while (!Posix.tryLock(lock)) {
            if (Posix.monotonicMs() >= until || !Posix.pause(LOOK_MS)) {
                throw new StorageException(
                        Names.claimsDirectory(root) + "/" + Names.FLOOR_LOCK
                                + " is held by another process: nothing was forgotten",
                        0);
            }
        }
    }
}
