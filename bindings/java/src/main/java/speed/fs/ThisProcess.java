package speed.fs;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import speed.wire.Entry;

/** Who this process is, and whether another one lives. */
public final class ThisProcess {
    private static final Entry.Process SELF = look();

    private ThisProcess() {}

    /** This process, for its entries and claims. */
    public static Entry.Process identity() {
        return SELF;
    }

    public static String bootId() {
        return SELF.bootId();
    }

    private static Entry.Process look() {
        long pid = Posix.pid();
        return new Entry.Process(pid, Math.max(0, startOf(pid)), namespace(), hostName(),
                firstLine("/proc/sys/kernel/random/boot_id"));
    }

    /** Whether that very process is known to be gone; false also where nobody can tell. */
    public static boolean isGone(Entry.Process process) {
        boolean visible = !SELF.bootId().isEmpty() && process.bootId().equals(SELF.bootId())
                && process.namespace().equals(SELF.namespace()) && process.pid() > 0;
        if (!visible) {
            return false;
        }
        long start = startOf(process.pid());
        boolean hidden = start < 0 && Posix.isForeignProcess(process.pid());
        return !hidden && start != process.start();
    }

    /** Field 22 of its stat, in ticks since boot; -1 if there is none, or it is a zombie. */
    private static long startOf(long pid) {
        try {
            String stat = Files.readString(Path.of("/proc/" + pid + "/stat"), StandardCharsets.ISO_8859_1);
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            boolean ended = fields[0].equals("Z") || fields[0].equals("X");
            return ended ? -1 : Long.parseLong(fields[19]);
        } catch (IOException gone) {
            return -1;
        }
    }

    private static String namespace() {
        try {
            return Files.readSymbolicLink(Path.of("/proc/self/ns/pid")).toString();
        } catch (IOException absent) {
            return "";
        }
    }

    private static String hostName() {
        return firstLine("/proc/sys/kernel/hostname");
    }

    private static String firstLine(String path) {
        try {
            return Files.readString(Path.of(path)).lines().findFirst().orElse("").strip();
        } catch (IOException absent) {
            return "";
        }
    }
}
