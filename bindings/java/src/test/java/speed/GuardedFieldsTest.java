package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * What is marked {@code @GuardedBy} is touched only by methods that take the lock, or are marked themselves as called
 * under it. It is looked up in the text of the sources, method by method: that finds what was forgotten, and no trick.
 */
class GuardedFieldsTest {
    private static final Path SOURCES = Path.of("src/main/java/speed");
    private static final Pattern FIELD = Pattern.compile(
            "^( +)@GuardedBy\\(\"(\\w+)\"\\)\\R(?: +/\\*\\*.*?\\*/\\R)? +[^(;=]*?(\\w+)(?: = [^;]*)?;",
            Pattern.MULTILINE);

    private static final Pattern METHOD =
            Pattern.compile("^( +)@GuardedBy\\(\"(\\w+)\"\\)\\R +[^(;=]*?(\\w+)\\([^;{]*\\{", Pattern.MULTILINE);

    /** One method, by the indentation of its braces. */
    private record Method(String header, String body) {}

    @Test
    void whatALockGuardsIsTouchedUnderIt() throws IOException {
        List<String> bare = new ArrayList<>();
        int fields = 0;
        for (Path source : sources()) {
            String text = Files.readString(source);
            Matcher field = FIELD.matcher(text);
            while (field.find()) {
                fields++;
                bare.addAll(untaken(source, text, field.group(1), field.group(2), field.group(3), "\\b(?!\\()"));
            }
            Matcher method = METHOD.matcher(text);
            while (method.find()) {
                bare.addAll(untaken(source, text, method.group(1), method.group(2), method.group(3), "\\("));
            }
        }
        assertEquals(List.of(), bare);
        assertTrue(fields > 30, fields + " fields are marked");
    }

    @Test
    void aMethodThatForgetsTheLockIsFound() {
        String text = """
            final class Gate {
                @GuardedBy("this")
                private int count;

                Gate() {
                    count = 1;
                }

                synchronized void open() {
                    count++;
                }

                int count() {
                    return count;
                }
            }
            """;
        assertEquals(
                List.of("Gate.java: count() touches count"),
                untaken(Path.of("Gate.java"), text, "    ", "this", "count", "\\b(?!\\()"));
    }

    private static List<Path> sources() throws IOException {
        try (Stream<Path> files = Files.walk(SOURCES)) {
            return files.filter(file -> file.toString().endsWith(".java"))
                    .sorted()
                    .toList();
        }
    }

    private static List<String> untaken(
            Path source, String text, String indent, String lock, String field, String suffix) {
        Pattern touched = Pattern.compile("(?<![\\w.])(?:this\\.|this::)?" + field + suffix);
        String taking = lock.equals("this")
                ? "synchronized \\(this\\)"
                : "synchronized \\(" + lock + "\\)|\\b" + lock + "\\.(lock|tryLock)";
        Pattern takes = Pattern.compile(taking);
        String type = source.getFileName().toString().replace(".java", "");
        return methods(text, indent).stream()
                .filter(method -> touched.matcher(method.body).find())
                .filter(method -> !method.header.contains("@GuardedBy") && !method.header.contains(" record "))
                .filter(method -> !(lock.equals("this") && method.header.contains("synchronized ")))
                .filter(method -> !method.header.matches("(?s).*\\b[A-Z]\\w*\\(.*") || method.header.contains(" new "))
                .filter(method -> !takes.matcher(method.body).find())
                .map(method -> type + ".java: " + name(method.header) + " touches " + field)
                .toList();
    }

    private static String name(String header) {
        Matcher name = Pattern.compile("(\\w+)\\(").matcher(header.replaceAll("@GuardedBy\\([^)]*\\)", ""));
        return name.find() ? name.group(1) + "()" : header.strip();
    }

    /** The methods of a type, whose braces stand at this indentation; constructors are among them. */
    private static List<Method> methods(String text, String indent) {
        String code = text.replaceAll("(?s)/\\*.*?\\*/", "")
                .replaceAll("//.*", "")
                .replaceAll("\"(\\\\.|[^\"\\\\\n])*\"(?!\\))", "\"\"");
        Matcher method = Pattern.compile("(?sm)^((?:" + indent + "@[^\\n]*\\n)*" + indent
                        + "(?!return|\\}|@| )[^\\n;={]*?\\([^{;]*?)\\{\\n(.*?)^" + indent + "\\}")
                .matcher(code);
        List<Method> methods = new ArrayList<>();
        while (method.find()) {
            methods.add(new Method(method.group(1), method.group(2)));
        }
        return methods;
    }
}
