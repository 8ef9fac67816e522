package speed.internal.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import speed.errors.KeyFileException;
import speed.internal.wire.Names;

/** Files that only their owner reads, written whole while no other process changes them. */
final class SecretFile {
    private static final int GROUP_READS = 0640;
    private static final long LOCK_MS = 10_000;
    private static final long LOOK_MS = 5; // nothing tells when a lock is let go of

    private SecretFile() {}

    /** Replaces a file, made where it is missing; on disk when this returns. KeyFileException where it cannot be. */
    static void replace(String path, byte[] text) {
        try {
            String target = whereLeads(path);
            int lock = locked(path, Names.lockPath(target));
            try {
                put(target, text);
            } finally {
                Posix.close(lock);
            }
        } catch (IOException error) {
            throw new KeyFileException(
                    "cannot write " + path + " (" + error.getMessage() + "): make room, or name another place");
        }
    }

    private static String whereLeads(String path) throws IOException {
        Path place = Path.of(path);
        Path led = Files.exists(place)
                ? place.toRealPath()
                : place.getParent().toRealPath().resolve(place.getFileName());
        return led.toString();
    }

    /** The lock that all languages take, until its descriptor is closed. */
    static int locked(String key, String path) throws PosixException {
        long until = Posix.monotonicMs() + LOCK_MS;
        while (true) {
            int lock = Directory.openOrMake(path, Posix.O_RDWR | Posix.O_NONBLOCK);
            if (isHeld(lock)) {
                return lock;
            }
            Posix.close(lock);
            if (Posix.monotonicMs() >= until || !Posix.pause(LOOK_MS)) {
                throw new KeyFileException("another process changes " + key + ": try again when it is done");
            }
        }
    }

    /** Whether it is locked now, and still the one that others find. */
    private static boolean isHeld(int lock) throws PosixException {
        try {
            return Posix.tryLock(lock) && Posix.status(lock).links() > 0;
        } catch (PosixException error) {
            Posix.close(lock);
            throw error;
        }
    }

    /** Writes beside and renames: the file is whole at every moment. What a killed process left is taken away. */
    static void put(String path, byte[] text) throws PosixException {
        String temporary = Names.nextKeyPath(path);
        Posix.removeQuietly(temporary);
        try {
            write(temporary, text, isInGroupRoot(path));
            Posix.rename(Posix.AT_FDCWD, temporary, Posix.AT_FDCWD, path);
            Directory.sync(directoryOf(path));
        } catch (PosixException error) {
            Posix.removeQuietly(temporary);
            throw error;
        }
    }

    /** A new file, on disk when this returns. */
    static void write(String temporary, byte[] text, boolean groupReads) throws PosixException {
        int flags = Posix.O_WRONLY | Posix.O_CREAT | Posix.O_EXCL | Posix.O_NOFOLLOW;
        int file = Posix.open(temporary, flags, Posix.PRIVATE_FILE);
        try {
            if (groupReads) {
                Posix.changeMode(file, GROUP_READS);
            }
            Posix.writeAll(file, text);
            Posix.sync(file);
        } finally {
            Posix.close(file);
        }
    }

    /** In the root of a group its members read the key. */
    private static boolean isInGroupRoot(String path) throws PosixException {
        String directory = directoryOf(path);
        return Files.isDirectory(Path.of(Names.registryDirectory(directory)))
                && Posix.status(Posix.AT_FDCWD, directory + "/.").isShared();
    }

    private static String directoryOf(String path) {
        return path.substring(0, path.lastIndexOf('/') + 1);
    }
}
