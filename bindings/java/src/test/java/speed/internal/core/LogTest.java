package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What others wrote, in the lines of the log (W-19). */
class LogTest {
    private static final String HOSTILE = "x\u001b[31m\n2026-11-24 INFO forged\u202e\u009b";
    private static final String SHOWN = "x\\x1b[31m\\n2026-11-24 INFO forged\\u202e\\x9b";

    @Test
    void valuesForgeNoLine() {
        assertTrue(written(() -> new Log("speed.test").warn("{} failed {} times", HOSTILE, 3))
                .contains(SHOWN + " failed 3 times"));
    }

    @Test
    void failuresAndTheirCausesKeepKindAndTraceAndForgeNoLine() {
        Exception failure = new IllegalStateException(HOSTILE, new IOException(HOSTILE));
        String output = written(() -> new Log("speed.test").error("it failed", failure));
        assertTrue(output.contains("java.lang.IllegalStateException: " + SHOWN), output);
        assertTrue(output.contains("Caused by: java.io.IOException: " + SHOWN), output);
        assertTrue(output.contains("at speed.internal.core.LogTest"), output);
        assertFalse(output.lines().anyMatch(line -> line.startsWith("2026")), output);
    }

    @Test
    void noOtherClassHasALogger() throws IOException {
        try (Stream<Path> files = Files.walk(Path.of("src/main/java"))) {
            List<String> having = files.filter(file -> file.toString().endsWith(".java"))
                    .filter(LogTest::namesLoggers)
                    .map(file -> file.getFileName().toString())
                    .toList();
            assertEquals(List.of("Log.java"), having);
        }
    }

    private static boolean namesLoggers(Path file) {
        try {
            return Files.readString(file).contains("org.slf4j.");
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** What is written to standard error, where slf4j-simple has its log. */
    private static String written(Runnable work) {
        PrintStream before = System.err;
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        System.setErr(new PrintStream(caught, true, StandardCharsets.UTF_8));
        try {
            work.run();
        } finally {
            System.setErr(before);
        }
        return caught.toString(StandardCharsets.UTF_8);
    }
}
