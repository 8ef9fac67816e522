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
    private NewRoot() {}

    /** Makes what is missing at these absolute paths; what is there is checked and kept. */
    public static void make(String root, String key) {
        Root.prepare(root);
        try {
            ObserverFile.ensure(root);
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
        int lock = SecretFile.locked(key, Names.lockPath(target));
        try {
            if (!isTaken(target)) {
                SecretFile.put(target, KeyFile.format(List.of(newKey())));
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
}
