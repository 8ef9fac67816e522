package speed.runtime;

import java.nio.file.Path;
import speed.Node;
import speed.Options;
import speed.fs.KeyFiles;
import speed.fs.Posix;

/** Starts the nodes of this library: what {@link Node.Builder#open} finds. */
public final class NodeEngine implements Node.Engine {
    private static final int MAX_OPEN_FILES = 8192;

    @Override
    public Node start(Options options) {
        Path place = Path.of(options.root() != null ? options.root() : KeyFiles.defaultRoot());
        String root = place.toAbsolutePath().normalize().toString();
        String key = options.key() != null ? options.key() : KeyFiles.defaultKey(root);
        int files = options.openFiles() != null ? options.openFiles() : defaultOpenFiles();
        return new OpenNode(Runtime.start(options.completed(root, key, files)));
    }

    /** For lanes and links together: half of what the process may have, but not more than a node has use for. */
    static int defaultOpenFiles() {
        return (int) Math.min(MAX_OPEN_FILES, Posix.mostDescriptors() / 2);
    }
}
