package speed;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Imports go downward only; wire, segment, message and core touch no files, clocks or threads. */
class LayersTest {
    private static final Path SOURCES = Path.of("src/main/java/speed");
    private static final List<String> LAYERS = List.of("errors", "columns", "wire", "segment", "message", "api", "core",
            "fs", "runtime", "node", "tool", "examples");
    private static final Set<String> TOP = Set.of("Node", "NodeBuilder");
    private static final List<String> PURE = List.of("columns", "wire", "segment", "message", "core");
    private static final List<String> IMPURE =
            List.of("java.nio.file", "java.io.File", "java.util.Timer", "java.util.concurrent.locks");

    @Test
    void importsGoDownward() throws IOException {
        for (Path source : sources()) {
            int own = layerOf(source.toString().replace("src/main/java/", "").replace('/', '.'));
            imports(source).filter(name -> name.startsWith("speed.")).forEach(name ->
                    assertTrue(layerOf(name) <= own, source + " imports " + name));
        }
    }

    @Test
    void pureLayersTouchNoFilesClocksOrThreads() throws IOException {
        for (Path source : sources()) {
            if (PURE.contains(source.getParent().getFileName().toString())) {
                imports(source).forEach(name ->
                        assertTrue(IMPURE.stream().noneMatch(name::startsWith), source + " imports " + name));
                String text = Files.readString(source);
                assertTrue(!text.contains("System.nanoTime") && !text.contains("currentTimeMillis"), source.toString());
            }
        }
    }

    private static List<Path> sources() throws IOException {
        try (Stream<Path> files = Files.walk(SOURCES)) {
            return files.filter(file -> file.toString().endsWith(".java")).toList();
        }
    }

    private static Stream<String> imports(Path source) {
        try {
            return Files.readString(source).lines().filter(line -> line.startsWith("import "))
                    .map(line -> line.replaceAll("import (static )?|;", ""));
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** speed.wire.Names is in layer wire; speed.Message in api; speed.Node in node. */
    private static int layerOf(String name) {
        String[] parts = name.split("\\.");
        boolean inPackage = LAYERS.contains(parts[1]);
        return LAYERS.indexOf(inPackage ? parts[1] : TOP.contains(parts[1]) ? "node" : "api");
    }
}
