package speed.internal.node;

import java.nio.file.Path;
import java.util.List;
import speed.Node;
import speed.internal.fs.AuditLines;
import speed.internal.fs.KeyFiles;
import speed.internal.fs.KeySets;
import speed.internal.fs.NewRoot;
import speed.internal.fs.Posix;
import speed.internal.spi.Engine;
import speed.message.AuditLog;
import speed.message.MessageKey;
import speed.options.NodeOptions;

/** Starts the nodes of this library: what {@link Node.Builder#open} finds. */
public final class NodeEngine implements Engine<Node> {
    private static final int MAX_OPEN_FILES = 8192;

    @Override
    public Node start(NodeOptions options) {
        String root = absolute(options.root() != null ? options.root() : KeyFiles.defaultRoot());
        String key = options.key() != null ? options.key() : KeyFiles.defaultKey(root);
        int files = options.maxOpenFiles() != 0 ? options.maxOpenFiles() : defaultOpenFiles();
        return new OpenNode(Runtime.start(options.completed(root, key, files)));
    }

    @Override
    public Path makeRoot(Path root, Path key) {
        String place = absolute(root != null ? root.toString() : KeyFiles.defaultRoot());
        NewRoot.make(place, absolute(key != null ? key.toString() : KeyFiles.defaultKey(place)));
        return Path.of(place);
    }

    @Override
    public AuditLog openAudit(Path path, long maxBytes, int kept) {
        return new AuditLines(absolute(path.toString()), maxBytes, kept);
    }

    @Override
    public List<MessageKey> readKeys(String uri) {
        return KeySets.read(uri);
    }

    private static String absolute(String path) {
        return Path.of(path).toAbsolutePath().normalize().toString();
    }

    /** For lanes and links together: half of what the process may have, but not more than a node has use for. */
    static int defaultOpenFiles() {
        return (int) Math.min(MAX_OPEN_FILES, Posix.mostDescriptors() / 2);
    }
}
