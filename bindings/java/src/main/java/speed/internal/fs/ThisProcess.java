package speed.internal.fs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import speed.internal.fs.Posix.ClockOffsets;
import speed.internal.wire.Block;
import speed.internal.wire.Entry;

/** Who this process is, and whether another one lives. */
public final class ThisProcess {
    private static final int GONE = -1;
    private static final int UNKNOWN = -2;
    /** A line of numbers and one short name. */
    private static final int STAT_BYTES = 4096;
    /** As USER_HZ of every 64-bit Linux says. */
    private static final long TICK_NANOS = 10_000_000;

    private static final Entry.Process SELF = look();

    private ThisProcess() {}

    /** This process, for its entries and claims. */
    public static Entry.Process identity() {
        return SELF;
    }

    public static String bootId() {
        return SELF.bootId();
    }

    /** How many descriptors this process has; below 0 where the system does not tell. */
    public static long openFiles() {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            return open.count() - 1; // without that of the listing
        } catch (IOException | UncheckedIOException absent) {
            return -1;
        }
    }

    private static Entry.Process look() {
        long pid = Posix.pid();
        long start = startOf(pid);
        return new Entry.Process(start < 0 ? 0 : pid, Math.max(0, start), namespace(), hostName(), boot());
    }

    /** Clocks of which nobody knows how far they are off are those of another boot. */
    private static String boot() {
        String boot = firstLine("/proc/sys/kernel/random/boot_id");
        return ClockOffsets.OWN.space().isEmpty() ? boot : boot + " " + ClockOffsets.OWN.space();
    }

    /** Whether that very process is known to be gone; false also where nobody can tell. */
    public static boolean isGone(Entry.Process process) {
        if (!isVisible(process)) {
            return false;
        }
        long start = startOf(process.pid());
        boolean hidden = start == UNKNOWN || start == GONE && Posix.isForeignProcess(process.pid());
        return !hidden && start != process.start();
    }

    /** Whether that very process is seen to live. */
    static boolean isSeen(Entry.Process process) {
        return isVisible(process) && startOf(process.pid()) == process.start();
    }

    private static boolean isVisible(Entry.Process process) {
        return !SELF.bootId().isEmpty()
                && process.bootId().equals(SELF.bootId())
                && process.namespace().equals(SELF.namespace())
                && process.pid() > 0;
    }

    /**
     * Field 22 of its stat, in ticks since boot, which the kernel counts from that of the reader's time namespace; GONE without a stat and once it ended, UNKNOWN if the look failed.
     */
    private static long startOf(long pid) {
        try {
            String stat = statOf(pid);
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            long start = Long.parseLong(fields[19]) - Math.floorDiv(ClockOffsets.OWN.boottime(), TICK_NANOS);
            return hasEnded(fields[0], Long.parseLong(fields[17])) ? GONE : start;
        } catch (PosixException error) {
            return error.is(PosixException.ENOENT) || error.is(PosixException.ESRCH) ? GONE : UNKNOWN;
        }
    }

    /** Nothing of it runs: a main thread that ended is a zombie while others run, or close their files. */
    private static boolean hasEnded(String state, long threads) {
        return (state.equals("Z") || state.equals("X")) && threads <= 1;
    }

    private static String statOf(long pid) throws PosixException {
        int file = Posix.open("/proc/" + pid + "/stat", Posix.O_RDONLY, 0);
        try {
            Block stat = new Block(STAT_BYTES);
            return new String(stat.copy(0, Posix.read(file, stat, STAT_BYTES, 0)), StandardCharsets.ISO_8859_1);
        } finally {
            Posix.close(file);
        }
    }

    private static String namespace() {
        try {
            String space = Files.readSymbolicLink(Path.of("/proc/self/ns/pid")).toString();
            boolean isExact = Math.floorMod(ClockOffsets.OWN.boottime(), TICK_NANOS) == 0;
            return isExact ? space : space + " " + ClockOffsets.spaceOf("time"); // starts are not known to the tick
        } catch (IOException absent) {
            return "";
        }
    }

    private static String hostName() {
        return firstLine("/proc/sys/kernel/hostname");
    }

    private static String firstLine(String path) {
        try {
            return Files.readString(Path.of(path))
                    .lines()
                    .findFirst()
                    .orElse("")
                    .strip();
        } catch (IOException absent) {
            return "";
        }
    }
}
