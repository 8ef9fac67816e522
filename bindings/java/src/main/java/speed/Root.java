package speed;

import java.nio.file.Path;
import speed.internal.spi.Engine;
import speed.internal.wire.Require;

/**
 * Makes the directory in which nodes meet, and its key: what {@code speed root init} does, for programs as well.
 *
 * <pre>{@code
 * Path root = Root.init(Path.of("/dev/shm/shop"));
 * Node billing = Node.builder("billing").root(root).open();
 * }</pre>
 *
 * <p>All that is made is for this user alone. Both methods are safe to call again, and from many processes at once: what is
 * there is checked and kept. Root and key are on disk when they return. Thread-safe.
 */
public final class Root {
    private Root() {}

    /**
     * Makes {@code $SPEED_ROOT}, else a directory of this user, and the key {@code $SPEED_KEY}, else {@code speed.key} in it.
     *
     * @return the root; nodes find it by themselves
     * @throws speed.errors.RootException when it cannot be made, or others than this user can change it
     * @throws speed.errors.KeyFileException when the key file cannot be written, is damaged, or others can reach it
     */
    public static Path init() {
        return Engine.installed().makeRoot(null, null);
    }

    /**
     * Makes a root, and the key {@code $SPEED_KEY}, else {@code speed.key} in the root.
     *
     * @param root the directory; what lies above it is made as well
     * @return the absolute path of the root, for {@link Node.Builder#root}
     * @throws speed.errors.RootException when it cannot be made, or others than this user can change it
     * @throws speed.errors.KeyFileException when the key file cannot be written, is damaged, or others can reach it
     */
    public static Path init(Path root) {
        return Engine.installed().makeRoot(Require.value("root", root), null);
    }

    /**
     * Makes a root, and a key file of its own place.
     *
     * @param root the directory; what lies above it is made as well
     * @param key the key file, in a directory that is there; for {@link Node.Builder#key}
     * @return the absolute path of the root, for {@link Node.Builder#root}
     * @throws speed.errors.RootException when it cannot be made, or others than this user can change it
     * @throws speed.errors.KeyFileException when the key file cannot be written, is damaged, or others can reach it
     */
    public static Path init(Path root, Path key) {
        return Engine.installed().makeRoot(Require.value("root", root), Require.value("key", key));
    }
}
