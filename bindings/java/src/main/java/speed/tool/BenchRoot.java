package speed.tool;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import speed.Node;
import speed.internal.wire.Limits;

/** A root with a key of its own, in memory where that can be had; gone when it is closed. */
public final class BenchRoot implements AutoCloseable {
    private static final String MEMORY = "/dev/shm";

    private final Path root;

    /** Makes the root in a directory; without one (null) in memory. */
    public BenchRoot(String parent) throws IOException {
        boolean inMemory = parent == null && Files.isDirectory(Path.of(MEMORY));
        Path place = Path.of(inMemory ? MEMORY : parent != null ? parent : System.getProperty("java.io.tmpdir"));
        root = Files.createTempDirectory(place, "speed-bench-");
        byte[] key = new byte[Limits.KEY_BYTES];
        new SecureRandom().nextBytes(key);
        Path file = Files.createFile(
                keyFile(root), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(file, "SPEED-KEY-V1\n\n" + Base64.getEncoder().encodeToString(key) + "\n");
    }

    public Path path() {
        return root;
    }

    private static Path keyFile(Path root) {
        return root.resolve("speed.key");
    }

    /** A node in this root that one other node may write to. */
    public Node node(String name, String... allowed) {
        return node(root, name, allowed);
    }

    /** The beginning of such a node. */
    public Node.Builder builder(String name, String... allowed) {
        return builder(root, name, allowed);
    }

    static Node node(Path root, String name, String... allowed) {
        return builder(root, name, allowed).open();
    }

    private static Node.Builder builder(Path root, String name, String... allowed) {
        return Node.builder(name).root(root).key(keyFile(root)).allow(allowed);
    }

    /** Another process with the class path of this one. */
    public Process start(String mainClass, List<String> arguments) throws IOException {
        Stream<String> java = Stream.of(
                ProcessHandle.current().info().command().orElse("java"),
                "-XX:+UseSerialGC",
                "-cp",
                System.getProperty("java.class.path"),
                mainClass);
        return new ProcessBuilder(Stream.concat(java, arguments.stream()).toList())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    @Override
    public void close() throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            files.sorted(Comparator.reverseOrder())
                    .forEach(file -> file.toFile().delete());
        }
    }
}
