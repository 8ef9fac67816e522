package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.tool.BenchRoot;

/** A program that is a module, with all jars on the module path and {@code requires speed;} as its only word about them. */
@Timeout(300)
class ModulePathTest {
    private static final String MODULE = "module shop { requires speed; }";
    private static final String PROGRAM = """
        package shop;

        import java.nio.file.Path;
        import java.time.Duration;
        import java.util.Map;
        import speed.Node;
        import speed.message.Algorithm;
        import speed.message.MessageKey;
        import speed.options.SendOptions;

        public class Main {
            public static void main(String[] root) throws Exception {
                try (Node billing = node(root[0], "billing"); Node analytics = node(root[0], "analytics")) {
                    billing.allow("analytics");
                    billing.register("add", request -> request.get("a", Long.class) + request.get("b", Long.class));
                    Object sum = analytics.call("billing", "add", Map.of("a", 2, "b", 3));
                    analytics.segment("billing", 4096, 0.5);
                    analytics.send("billing", new byte[100_000], SendOptions.DEFAULT);
                    byte[] received = (byte[]) billing.receive(Duration.ofSeconds(30)).payload();
                    String key = MessageKey.generate("k", Algorithm.ED25519).id();
                    System.out.println(sum + " " + received.length + " " + key);
                }
            }

            private static Node node(String root, String name) {
                return Node.builder(name).root(Path.of(root)).key(Path.of(root, "speed.key")).open();
            }
        }
        """;

    @Test
    void aModuleThatRequiresSpeedCallsSendsAndSigns(@TempDir Path place) throws Exception {
        Path classes = compiled(place);
        try (BenchRoot root = new BenchRoot(null)) {
            Process program = new ProcessBuilder(
                            "java",
                            "-p",
                            classes + File.pathSeparator + jars(),
                            "-m",
                            "shop/shop.Main",
                            root.path().toString())
                    .redirectErrorStream(true)
                    .start();
            String output = new String(program.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals("5 100000 k", output.strip());
            assertEquals(0, program.waitFor());
        }
    }

    @Test
    void aProgramCannotNameWhatOnlyANodeNeeds(@TempDir Path place) throws IOException {
        String errors = refused(place, "speed.internal.wire.Names");
        assertTrue(errors.contains("package speed.internal.wire is not visible"), errors);
        for (String name : List.of("speed.internal.spi.Engine", "speed.internal.message.OpenedMessage")) {
            assertTrue(refused(place, name).contains("is not visible"), name);
        }
    }

    @Test
    void noExportedPackageHasWhatOnlyANodeNeeds(@TempDir Path place) throws IOException {
        for (String name : List.of("speed.message.OpenedMessage", "speed.Node.Engine")) {
            assertTrue(refused(place, name).contains("cannot find symbol"), name);
        }
        assertTrue(refused(place, "speed.message.Guard").contains("Guard is not public"), "speed.message.Guard");
    }

    private static String refused(Path place, String name) throws IOException {
        Path module = Files.writeString(place.resolve("module-info.java"), MODULE);
        Path main = Files.writeString(
                Files.createDirectories(place.resolve("shop")).resolve("Main.java"),
                "package shop; class Main { " + name + " inside; }");
        StringWriter errors = new StringWriter();
        PrintWriter out = new PrintWriter(errors);
        int result = ToolProvider.findFirst("javac")
                .orElseThrow()
                .run(
                        out,
                        out,
                        "-p",
                        jars(),
                        "-d",
                        place.resolve("classes").toString(),
                        module.toString(),
                        main.toString());
        assertEquals(1, result);
        return errors.toString();
    }

    private static Path compiled(Path place) throws IOException {
        Path module = Files.writeString(place.resolve("module-info.java"), MODULE);
        Path main =
                Files.writeString(Files.createDirectories(place.resolve("shop")).resolve("Main.java"), PROGRAM);
        Path classes = place.resolve("classes");
        int result = ToolProvider.findFirst("javac")
                .orElseThrow()
                .run(
                        System.err,
                        System.err,
                        "-Xlint:all",
                        "-Werror",
                        "-p",
                        jars(),
                        "-d",
                        classes.toString(),
                        module.toString(),
                        main.toString());
        assertEquals(0, result);
        return classes;
    }

    /** What this test runs with, but for the tests. */
    private static String jars() {
        List<String> tests = List.of("test-classes", "junit", "jacoco");
        return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(entry -> tests.stream().noneMatch(entry::contains))
                .collect(Collectors.joining(File.pathSeparator));
    }
}
