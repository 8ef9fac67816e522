package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * What is compiled, seen as a graph: which class names which. The JDK's own {@code jdeps} draws it, so that names within
 * a package count like imports.
 */
class LayersTest {
    private static final Path CLASSES = Path.of("target/classes/speed");
    private static final Path SOURCES = Path.of("src/main/java/speed");
    private static final Pattern USE = Pattern.compile(" +(speed\\.\\S+) +-> (speed\\.\\S+) .*");
    /** Each names only what stands before it. */
    private static final List<String> LAYERS = List.of(
            "speed.errors",
            "speed.columns",
            "speed.values",
            "speed.internal.access",
            "speed.internal.wire",
            "speed.internal.message",
            "speed.message",
            "speed.options",
            "speed.internal.segment",
            "speed.topics",
            "speed.internal.spi",
            "speed",
            "speed.internal.core",
            "speed.internal.fs",
            "speed.internal.engine.threads",
            "speed.internal.engine",
            "speed.internal.engine.lane",
            "speed.internal.engine.link",
            "speed.internal.engine.stream",
            "speed.internal.engine.call",
            "speed.internal.engine.serve",
            "speed.internal.engine.deliver",
            "speed.internal.engine.remote",
            "speed.internal.engine.send",
            "speed.internal.topics",
            "speed.internal.node",
            "speed.examples",
            "speed.tool");

    private static final Set<String> PURE = Set.of(
            "speed.columns",
            "speed.message",
            "speed.internal.wire",
            "speed.internal.segment",
            "speed.internal.message",
            "speed.internal.core");
    private static final Pattern IMPURE =
            Pattern.compile("java\\.nio\\.file|java\\.io\\.File|java\\.util\\.Timer|java\\.util\\.concurrent\\.locks"
                    + "|System\\.nanoTime|currentTimeMillis");

    @Test
    void noClassReachesItselfThroughOthers() {
        assertEquals(List.of(), circles(uses()));
    }

    @Test
    void noPackageReachesItselfThroughOthers() {
        assertEquals(List.of(), circles(packages()));
    }

    @Test
    void packagesUseOnlyThoseBelow() {
        packages()
                .forEach((name, used) -> used.forEach(
                        other -> assertTrue(LAYERS.indexOf(other) < LAYERS.indexOf(name), name + " uses " + other)));
    }

    @Test
    void everyPackageHasItsLayer() {
        assertEquals(new TreeSet<>(LAYERS), new TreeSet<>(packages().keySet()));
    }

    @Test
    void aCircleIsFoundWhereOneIs() {
        assertEquals(
                List.of(Set.of("a", "b", "c")),
                circles(Map.of("a", Set.of("b"), "b", Set.of("c"), "c", Set.of("a", "d"), "d", Set.of())));
    }

    @Test
    void pureLayersTouchNoFilesClocksOrLocks() throws IOException {
        for (Path source : sources()) {
            String name = SOURCES.getParent()
                    .relativize(source.getParent())
                    .toString()
                    .replace('/', '.');
            if (PURE.contains(name)) {
                Matcher impure = IMPURE.matcher(Files.readString(source));
                assertTrue(!impure.find(), () -> source + " uses " + impure.group());
            }
        }
    }

    private static List<Path> sources() throws IOException {
        try (Stream<Path> files = Files.walk(SOURCES)) {
            return files.filter(file -> file.toString().endsWith(".java")).toList();
        }
    }

    /** Each class with those that it names; a nested class counts as the one around it. */
    private static Map<String, Set<String>> uses() {
        StringWriter drawn = new StringWriter();
        PrintWriter out = new PrintWriter(drawn);
        ToolProvider.findFirst("jdeps")
                .orElseThrow()
                .run(out, out, "-verbose:class", "-filter:none", "--ignore-missing-deps", CLASSES.toString());
        Map<String, Set<String>> uses = new TreeMap<>();
        drawn.toString()
                .lines()
                .map(USE::matcher)
                .filter(Matcher::matches)
                .forEach(line -> add(
                        uses,
                        line.group(1).replaceAll("\\$.*", ""),
                        line.group(2).replaceAll("\\$.*", "")));
        assertTrue(uses.size() > 100, drawn::toString);
        return uses;
    }

    private static Map<String, Set<String>> packages() {
        UnaryOperator<String> packageOf = name -> name.substring(0, name.lastIndexOf('.'));
        Map<String, Set<String>> packages = new TreeMap<>();
        uses().forEach((name, used) ->
                used.forEach(other -> add(packages, packageOf.apply(name), packageOf.apply(other))));
        return packages;
    }

    private static void add(Map<String, Set<String>> graph, String user, String used) {
        Set<String> known = graph.computeIfAbsent(user, any -> new TreeSet<>());
        graph.computeIfAbsent(used, any -> new TreeSet<>());
        if (!user.equals(used)) {
            known.add(used);
        }
    }

    /** Groups of nodes that reach each other. */
    private static List<Set<String>> circles(Map<String, Set<String>> graph) {
        Map<String, Set<String>> reached = new HashMap<>();
        graph.keySet().forEach(node -> reached.put(node, reach(graph, node)));
        Set<Set<String>> circles = new LinkedHashSet<>();
        reached.forEach((node, others) -> {
            if (others.contains(node)) {
                Set<String> circle = new TreeSet<>(others);
                circle.removeIf(other -> !reached.get(other).contains(node));
                circles.add(circle);
            }
        });
        return new ArrayList<>(circles);
    }

    private static Set<String> reach(Map<String, Set<String>> graph, String from) {
        Set<String> reached = new TreeSet<>();
        List<String> ahead = new ArrayList<>(graph.get(from));
        while (!ahead.isEmpty()) {
            String next = ahead.remove(ahead.size() - 1);
            if (reached.add(next)) {
                ahead.addAll(graph.get(next));
            }
        }
        return reached;
    }
}
