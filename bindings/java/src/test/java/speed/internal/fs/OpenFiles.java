package speed.internal.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** What this process holds open, as the kernel tells it. */
public final class OpenFiles {
    private static final Path DESCRIPTORS = Path.of("/proc/self/fd");
    private static final int ACCESS = 3;
    private static final int WRITE_ONLY = 1;

    private OpenFiles() {}

    /** Paths of the open files below a directory, and of itself. */
    public static List<String> below(Path directory) throws IOException {
        return all().stream()
                .map(OpenFiles::path)
                .filter(path -> Path.of(path).startsWith(directory))
                .toList();
    }

    /** Descriptors of this path that are for writing only: the ends of those that send there. */
    public static List<Integer> writing(String pattern) throws IOException {
        return all().stream()
                .filter(one -> path(one).matches(pattern) && isWriteOnly(one))
                .toList();
    }

    /** Whether an epoll object of this process watches a descriptor. */
    public static boolean isWatched(int descriptor) throws IOException {
        return all().stream()
                .filter(one -> path(one).contains("[eventpoll]"))
                .anyMatch(one -> info(one).stream().anyMatch(line -> line.matches("tfd: +" + descriptor + " .*")));
    }

    private static List<Integer> all() throws IOException {
        List<Integer> all = new ArrayList<>();
        try (Stream<Path> open = Files.list(DESCRIPTORS)) {
            open.forEach(one -> all.add(Integer.parseInt(one.getFileName().toString())));
        }
        return all;
    }

    private static String path(int descriptor) {
        try {
            return Files.readSymbolicLink(DESCRIPTORS.resolve("" + descriptor)).toString();
        } catch (IOException closed) {
            return "";
        }
    }

    private static boolean isWriteOnly(int descriptor) {
        return info(descriptor).stream()
                .filter(line -> line.startsWith("flags:"))
                .anyMatch(line -> (Integer.parseInt(line.substring(6).trim(), 8) & ACCESS) == WRITE_ONLY);
    }

    private static List<String> info(int descriptor) {
        try {
            return Files.readAllLines(Path.of("/proc/self/fdinfo/" + descriptor));
        } catch (IOException closed) {
            return List.of();
        }
    }
}
