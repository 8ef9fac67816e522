package speed.internal.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * How far the clocks of this process are ahead of those of the initial time namespace, in nanoseconds.
 *
 * @param space the own time namespace, if these are unknown: then nothing can be compared with others; else empty
 */
record ClockOffsets(long monotonic, long boottime, String space) {
    static final ClockOffsets OWN = own();
    private static final String INITIAL = "time:[4026531834]";
    private static final long SECOND = 1_000_000_000;

    private static ClockOffsets own() {
        try {
            String own = spaceOf("time");
            if (own.equals(INITIAL)) {
                return parse("");
            }
            if (!own.equals(spaceOf("time_for_children"))) {
                return new ClockOffsets(0, 0, own); // the file is about those of the children
            }
            return parse(Files.readString(Path.of("/proc/self/timens_offsets")));
        } catch (IOException | RuntimeException absent) {
            return parse(""); // this system has no time namespaces
        }
    }

    /** The time namespace of this process, or of its children. */
    static String spaceOf(String which) throws IOException {
        return Files.readSymbolicLink(Path.of("/proc/self/ns/" + which)).toString();
    }

    /** What {@code /proc/self/timens_offsets} says. */
    static ClockOffsets parse(String text) {
        long monotonic = 0;
        long boottime = 0;
        for (String line : text.lines().toList()) {
            String[] words = line.strip().split("\\s+");
            long offset = Long.parseLong(words[1]) * SECOND + Long.parseLong(words[2]);
            monotonic = words[0].equals("monotonic") ? offset : monotonic;
            boottime = words[0].equals("boottime") ? offset : boottime;
        }
        return new ClockOffsets(monotonic, boottime, "");
    }
}
