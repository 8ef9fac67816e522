package speed.internal.fs;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import speed.errors.KeyFileException;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.fs.TrustedPath.UntrustedException;
import speed.internal.wire.Block;
import speed.internal.wire.KeyFile;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;
import speed.internal.wire.NodeIdentity;

/** Reading key files; where root and key are looked for. */
public final class KeyFiles {
    private KeyFiles() {}

    /** {@code $SPEED_ROOT}, else a directory of this user that ends with the session or boot. */
    public static String defaultRoot() {
        return defaultRoot(System.getenv());
    }

    static String defaultRoot(Map<String, String> environment) {
        String configured = environment.get("SPEED_ROOT");
        if (configured != null && !configured.isEmpty()) {
            return configured;
        }
        String session = environment.get("XDG_RUNTIME_DIR");
        if (session != null && Root.isPrivate(session)) {
            return session + "/speed";
        }
        String shared = Files.isDirectory(Path.of("/dev/shm")) ? "/dev/shm" : "/tmp";
        return shared + "/speed-" + Posix.uid();
    }

    /** {@code $SPEED_KEY}, else {@code speed.key} among systemd's credentials, else in the root. */
    public static String defaultKey(String root) {
        return defaultKey(root, System.getenv());
    }

    static String defaultKey(String root, Map<String, String> environment) {
        String configured = environment.get("SPEED_KEY");
        if (configured != null && !configured.isEmpty()) {
            return configured;
        }
        String credentials = environment.getOrDefault("CREDENTIALS_DIRECTORY", "");
        String given = Names.defaultKeyPath(credentials);
        return !credentials.isEmpty() && Files.exists(Path.of(given)) ? given : Names.defaultKeyPath(root);
    }

    /** The keyring of a key file; KeyFileException says what is wrong with it and what to do. */
    public static Keyring load(String path) {
        return new Keyring(read(path));
    }

    /** The keys of the file. */
    static List<byte[]> read(String path) {
        return KeyFile.parse(secret(path, KeyFile.MAX_BYTES, false));
    }

    /** The identity in a file, which nobody else may read; KeyFileException says what is wrong with it. */
    public static NodeIdentity readIdentity(String path) {
        return NodeIdentity.parse(secret(path, KeyFile.MAX_BYTES, true));
    }

    /**
     * The text of a file that others cannot reach.
     *
     * @param isOfOne whether not even a group may read it
     */
    static byte[] secret(String path, int mostBytes, boolean isOfOne) {
        String place = followed(path);
        int file = open(path, place);
        try {
            FileStatus status = Posix.status(file);
            checkPrivate(path, status, directoryOf(place));
            if (isOfOne && status.has(040)) {
                throw new KeyFileException(
                        "a group can read " + path + ", and an identity is of one node: run `chmod 600 " + path + "`");
            }
            Block text = new Block(mostBytes + 1);
            int length = Posix.read(file, text, text.size, 0);
            if (length > mostBytes) {
                throw new KeyFileException(path + " is too large for a key file: make one with `speed key new`");
            }
            return text.copy(0, length);
        } catch (PosixException error) {
            throw new KeyFileException("cannot read the key file " + path + ": " + error.getMessage());
        } finally {
            Posix.close(file);
        }
    }

    private static String followed(String path) {
        try {
            return TrustedPath.followed(path);
        } catch (UntrustedException error) {
            throw new KeyFileException(error.advice("use a key file of your own, elsewhere"));
        } catch (PosixException error) {
            throw unreadable(path, error);
        }
    }

    private static int open(String path, String place) {
        try {
            return Posix.open(place, Posix.O_RDONLY | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
        } catch (PosixException error) {
            throw unreadable(path, error);
        }
    }

    private static FileStatus directoryOf(String place) throws PosixException {
        return Posix.status(Posix.AT_FDCWD, place.substring(0, place.lastIndexOf('/') + 1) + ".");
    }

    private static KeyFileException unreadable(String path, PosixException error) {
        if (error.is(PosixException.ENOENT)) {
            return new KeyFileException(
                    "there is no key file " + path + ": make one with `speed root init` or `speed key new`");
        }
        return new KeyFileException("cannot read the key file " + error.getMessage());
    }

    private static void checkPrivate(String path, FileStatus status, FileStatus directory) {
        if (!status.isRegular()) {
            throw new KeyFileException(path + " is no regular file");
        }
        if (status.uid() != Posix.uid() && status.uid() != 0) {
            throw new KeyFileException(path + " belongs to another user (uid " + status.uid() + ")");
        }
        if (status.has(037) || (status.has(040) && !isOwnGroup(status, directory))) {
            throw new KeyFileException(
                    "others can reach " + path + ": run `chmod 600 " + path + "`, and rotate the key if they may have");
        }
    }

    /** Whether this user is in the group of a file. Root chose who reads a file of its group, or of its group's root. */
    private static boolean isOwnGroup(FileStatus status, FileStatus directory) {
        if ((status.uid() == 0 && status.gid() == 0) || Posix.who().groups().contains(status.gid())) {
            return true;
        }
        return Posix.uid() == 0 && directory.isShared() && directory.gid() == status.gid();
    }

    /** The identity file of a running node: renewed exchange keys and owners are taken while it goes on. Thread-safe. */
    public static final class IdentitySource {
        private final String path;
        private volatile NodeIdentity now;

        /** KeyFileException if the file is not sound. */
        public IdentitySource(String path) {
            this.path = Path.of(path).toAbsolutePath().toString();
            now = readIdentity(this.path);
        }

        /** Another object once its exchange keys or owners are others. */
        public NodeIdentity now() {
            return now;
        }

        /** Takes what is in the file now; what is wrong with it, if what was read before goes on, else null. */
        public String look() {
            try {
                NodeIdentity found = readIdentity(path);
                if (!found.fingerprint().equals(now.fingerprint())) {
                    return path + " has another identity: start the node anew for it";
                }
                if (!found.isAs(now)) {
                    now = found;
                }
                return null;
            } catch (KeyFileException refused) {
                return refused.getMessage();
            }
        }
    }

    /** The key file of a running node: looked at again, and its keys taken, while the node goes on. Thread-safe. */
    public static final class KeySource {
        /** Between two looks that others can bring about: a stranger names as many keys as it likes. */
        private static final long PAUSE_NANOS = 1_000_000_000;

        private final String path;
        private final Keyring keyring;
        private volatile long next = System.nanoTime();

        /** KeyFileException if the file is not sound. */
        public KeySource(String path) {
            this.path = Path.of(path).toAbsolutePath().toString();
            keyring = KeyFiles.load(this.path);
            keyring.lookWith(this::lookSoon);
        }

        /** The keyring that follows the file. */
        public Keyring keyring() {
            return keyring;
        }

        /** Takes the keys that are in the file now; what is wrong with it, if the keys of before go on, else null. */
        public synchronized String look() {
            next = System.nanoTime() + PAUSE_NANOS;
            try {
                keyring.take(KeyFiles.read(path));
                return null;
            } catch (KeyFileException refused) {
                return refused.getMessage();
            }
        }

        /** The same, unless somebody looked just before. */
        private void lookSoon() {
            if (System.nanoTime() - next >= 0) {
                look();
            }
        }
    }
}
