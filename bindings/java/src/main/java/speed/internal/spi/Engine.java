package speed.internal.spi;

import java.nio.file.Path;
import java.util.List;
import java.util.ServiceLoader;
import speed.errors.ConfigurationException;
import speed.message.AuditLog;
import speed.message.MessageKey;
import speed.options.NodeOptions;

/**
 * What the classes that programs use have the rest of this library do. The library provides it as a service, since its
 * inner packages use those classes and not the other way round.
 *
 * @param <N> a node
 */
public interface Engine<N> {
    /** The one beside this interface, whatever class loader the program's thread has. */
    static Engine<?> installed() {
        return ServiceLoader.load(Engine.class, Engine.class.getClassLoader())
                .findFirst()
                .orElseThrow(() -> new ConfigurationException(
                        "no engine is on the class path: META-INF/services of speed is missing"));
    }

    /** Claims the name and starts the node. */
    N start(NodeOptions options);

    /**
     * Makes a root and its key where they are missing.
     *
     * @param root the directory; null for the one of the environment
     * @param key the key file; null for the one of the environment, else the root's
     * @return the absolute path of the root
     */
    Path makeRoot(Path root, Path key);

    /**
     * Opens a file for audit lines.
     *
     * @param maxBytes beyond which it gets another name
     * @param kept how many of those there are
     */
    AuditLog openAudit(Path path, long maxBytes, int kept);

    /** Reads the set of keys at a URI. */
    List<MessageKey> readKeys(String uri);
}
