package speed.internal.fs;

import java.util.function.Predicate;
import speed.errors.WireException;
import speed.internal.wire.Block;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;

/** The file of an entry: read without trust, removed only while it is the one that was meant. */
final class EntryFile {
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
