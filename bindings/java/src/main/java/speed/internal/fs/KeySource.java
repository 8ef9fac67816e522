package speed.internal.fs;

import java.nio.file.Path;
import speed.errors.KeyFileException;
import speed.internal.wire.Keyring;

/** The key file of a running node: looked at again, and its keys taken, while the node goes on. Thread-safe. */
public final class KeySource {
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
