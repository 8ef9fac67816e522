package speed.internal.fs;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.SortedSet;
import java.util.TreeSet;
import speed.internal.wire.Block;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;

/** Claims: files created with O_EXCL, so that exactly one process wins a generation of a name. */
final class Claim {
    private static final int MAX_BYTES = 4096;
    /** What is left of its mode: in the root of a group its members still read it. */
    private static final int READ_ONLY = 0440;

    private static final int OWNER_WRITES = 0200;

    private Claim() {}

    /** The highest claimed generation of a name, 0 without one. */
    static int newest(String root, String name) throws PosixException {
        SortedSet<Integer> generations = generations(root, name);
        return generations.isEmpty() ? 0 : generations.first();
    }

    /** All claimed generations of a name, the newest first. */
    private static SortedSet<Integer> generations(String root, String name) throws PosixException {
        SortedSet<Integer> generations = new TreeSet<>(Collections.reverseOrder());
        try (Directory claims = Directory.open(Names.claimsDirectory(root))) {
            claims.forEachName(file -> generations.add(Names.parseClaim(file, name)));
        }
        generations.remove(0);
        return generations;
    }

    /** The highest claimed generation of each name that has claims. */
    static Map<String, Integer> newestOfAll(String root) throws PosixException {
        Map<String, Integer> newest = new HashMap<>();
        try (Directory claims = Directory.open(Names.claimsDirectory(root))) {
            claims.forEachName(file -> {
                String name = Names.parseClaim(file);
                if (name != null) {
                    newest.merge(name, Names.parseClaim(file, name), Math::max);
                }
            });
        }
        return newest;
    }

    /** Creates the claim; false if somebody else has it. */
    static boolean take(String root, String name, int generation, Claimant claimant, Keyring keyring)
            throws PosixException {
        int file;
        try {
            file = Directory.openOrMake(Names.claimPath(root, name, generation), Posix.O_WRONLY | Posix.O_EXCL);
        } catch (PosixException error) {
            if (error.is(PosixException.EEXIST)) {
                return false;
            }
            throw error;
        }
        try {
            Posix.writeAll(file, claimant.encode(keyring.registryKeys().get(0)));
            if (!claimant.sweeps()) {
                makeDurable(root, file);
            }
        } catch (PosixException failed) {
            release(root, name, generation); // no entry will follow it
            throw failed;
        } finally {
            Posix.close(file);
        }
        return true;
    }

    /** After a power cut no generation may be used again. */
    private static void makeDurable(String root, int file) throws PosixException {
        Posix.sync(file);
        Directory.sync(Names.claimsDirectory(root));
        Directory.sync(Names.registryDirectory(root));
        Directory.sync(root);
    }

    /** Who made a claim; null while it is empty or if it is unreadable. Throws where the system fails to read it. */
    static Claimant read(String root, String name, int generation, Keyring keyring) throws PosixException {
        int file = -1;
        try {
            file = Posix.open(
                    Names.claimPath(root, name, generation), Posix.O_RDONLY | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
            Block text = new Block(MAX_BYTES);
            int length = Posix.read(file, text, MAX_BYTES, 0);
            return Claimant.decode(text.copy(0, length), keyring.registryKeys());
        } catch (PosixException error) {
            if (error.saysFailed()) {
                throw error;
            }
            return null;
        } finally {
            Posix.close(file);
        }
    }

    /**
     * Who made the newest claim that tells its maker; null if none does. One that is just being written, or that its
     * maker left empty, tells nothing: then those before it are still there.
     */
    static Claimant readNewest(String root, String name, Keyring keyring) throws PosixException {
        for (int generation : generations(root, name)) {
            Claimant claimant = read(root, name, generation, keyring);
            if (claimant != null) {
                return claimant;
            }
        }
        return null;
    }

    /** Says that no entry follows this claim any more: an absent entry means a free name. */
    static void release(String root, String name, int generation) {
        try {
            String path = Names.claimPath(root, name, generation);
            Posix.changeMode(path, Posix.status(Posix.AT_FDCWD, path).mode() & READ_ONLY);
        } catch (PosixException replaced) {
            // a newer claim took its place
        }
    }

    /** Whether the owner left in order; empty if the claim is gone. */
    static Optional<Boolean> isReleased(String root, String name, int generation) throws PosixException {
        try {
            return Optional.of(!Posix.status(Posix.AT_FDCWD, Names.claimPath(root, name, generation))
                    .has(OWNER_WRITES));
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return Optional.empty();
            }
            throw error;
        }
    }

    /** Whether a claim is there; also one that cannot be seen. */
    static boolean exists(String root, String name, int generation) {
        try {
            Posix.status(Posix.AT_FDCWD, Names.claimPath(root, name, generation));
            return true;
        } catch (PosixException error) {
            return !error.is(PosixException.ENOENT);
        }
    }

    /** Takes a claim back that nothing was published under. One that cannot be removed stays, released. */
    static void remove(String root, String name, int generation) {
        release(root, name, generation);
        Posix.removeQuietly(Names.claimPath(root, name, generation));
    }

    /** Removes lower claims; those that cannot be removed stay. */
    static void removeOlder(String root, String name, int generation) {
        try (Directory claims = Directory.open(Names.claimsDirectory(root))) {
            claims.forEachName(file -> {
                int found = Names.parseClaim(file, name);
                if (found > 0 && found < generation) {
                    claims.removeQuietly(file);
                }
            });
        } catch (PosixException unlisted) {
            // they say nothing any more
        }
    }
}
