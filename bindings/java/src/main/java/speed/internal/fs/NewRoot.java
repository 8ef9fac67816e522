package speed.internal.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.List;
import speed.errors.KeyFileException;
import speed.internal.wire.KeyFile;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;

/** A root with its key, made where they are missing: what {@code speed root init} does. */
public final class NewRoot {
    private static final int GROUP_READS = 0640;
    private static final long LOCK_MS = 10_000;
    private static final long LOOK_MS = 5; // nothing tells when a lock is let go of

    private NewRoot() {}

    /** Makes what is missing at these absolute paths; what is there is checked and kept. */
    public static void make(String root, String key) {
        Root.prepare(root);
        try {
            ensureKey(key);
        } catch (IOException error) {
            throw new KeyFileException("cannot write the key file " + key + " (" + error.getMessage()
                    + "): make room, or name another place");
        }
        KeyFiles.load(key); // one that was there may be damaged, or open to others
    }

    private static void ensureKey(String key) throws IOException {
        if (isTaken(key)) {
            return;
        }
        Path path = Path.of(key);
        String target =
                path.getParent().toRealPath().resolve(path.getFileName()).toString();
        int lock = locked(key, Names.lockPath(target));
        try {
            if (!isTaken(target)) {
                put(target, newKey());
            }
        } finally {
            Posix.close(lock);
        }
    }

    /** Whether something is there, be it a link to nothing. */
    private static boolean isTaken(String path) {
        return Files.exists(Path.of(path), LinkOption.NOFOLLOW_LINKS);
    }

    private static byte[] newKey() {
        byte[] key = new byte[Limits.KEY_BYTES];
        new SecureRandom().nextBytes(key);
        return key;
    }

    /** The lock that all languages take, until its descriptor is closed. */
    private static int locked(String key, String path) throws PosixException {
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
    private static void put(String path, byte[] key) throws PosixException {
        String temporary = Names.nextKeyPath(path);
        Posix.removeQuietly(temporary);
        try {
            write(temporary, path, KeyFile.format(List.of(key)));
            Posix.rename(Posix.AT_FDCWD, temporary, Posix.AT_FDCWD, path);
            Directory.sync(directoryOf(path));
        } catch (PosixException error) {
            Posix.removeQuietly(temporary);
            throw error;
        }
    }

    private static void write(String temporary, String path, byte[] text) throws PosixException {
        int flags = Posix.O_WRONLY | Posix.O_CREAT | Posix.O_EXCL | Posix.O_NOFOLLOW;
        int file = Posix.open(temporary, flags, Posix.PRIVATE_FILE);
        try {
            if (isInGroupRoot(path)) {
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
