package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.tool.BenchRoot;

/** The first program of the README, as it stands there. */
@Timeout(120)
class ReadmeTest {
    private static final String BEGIN = "```java\n";

    @TempDir
    private Path home;

    @Test
    void theFirstProgramHasTenLinesAndPrintsTheTax() throws IOException, InterruptedException {
        String program = firstProgram(Files.readString(Path.of("README.md")));
        assertTrue(program.lines().filter(line -> !line.isBlank()).count() <= 10, program);
        Path source = Files.writeString(home.resolve("Tax.java"), program);
        try (BenchRoot root = new BenchRoot(null)) {
            assertEquals("180.0\n", run(source, root.path()));
        }
    }

    private static String firstProgram(String text) {
        int begin = text.indexOf(BEGIN) + BEGIN.length();
        return text.substring(begin, text.indexOf("```", begin));
    }

    private String run(Path source, Path root) throws IOException, InterruptedException {
        Path printed = home.resolve("printed");
        ProcessBuilder java = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp", System.getProperty("java.class.path"), source.toString());
        java.environment().put("SPEED_ROOT", root.toString());
        java.environment().put("SPEED_KEY", root.resolve("speed.key").toString());
        Process process = java.redirectOutput(printed.toFile()).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the program does not end");
        assertEquals(0, process.exitValue());
        return Files.readString(printed, StandardCharsets.UTF_8);
    }
}
