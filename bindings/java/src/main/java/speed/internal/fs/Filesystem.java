package speed.internal.fs;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import speed.errors.RootException;
import speed.internal.wire.Limits;

/**
 * What kind of filesystem a root lies on, and whether FIFOs work there.
 *
 * @param lateSeconds how long after a change on another host it may be seen here
 */
public record Filesystem(String kind, boolean isMemory, boolean isRemote, boolean supportsFifo, double lateSeconds) {
    private static final Set<String> MEMORY = Set.of("tmpfs", "ramfs", "devtmpfs");
    private static final Set<String> REMOTE = Set.of(
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "9p",
            "virtiofs",
            "ceph",
            "lustre",
            "gpfs",
            "afs",
            "glusterfs",
            "beegfs",
            "fuse");
    private static final Set<Integer> NO_FIFOS =
            Set.of(PosixException.EPERM, PosixException.ENOSYS, PosixException.EOPNOTSUPP);
    private static final int KIND = 2;
    private static final int OPTIONS = 3;
    private static final String[] UNKNOWN = {"", "", "unknown", ""};
    private static final Pattern LATE = Pattern.compile("(acregmax|acdirmax|actimeo)=([0-9]+)");

    /**
     * Describes the filesystem of an existing, writable directory; tries a FIFO there and removes it. Where it is
     * remote none is tried: bells ring on one machine. RootException if the system failed to make one.
     */
    public static Filesystem of(String path) {
        String[] mount = mountOf(path);
        String kind = mount[KIND];
        boolean remote = REMOTE.contains(kind) || kind.startsWith("fuse.") && !kind.equals("fuse.lxcfs");
        return remote
                ? new Filesystem(kind, false, true, false, lateWith(mount[OPTIONS]))
                : new Filesystem(kind, MEMORY.contains(kind), false, hasFifos(path), 0);
    }

    /** How long a mount with these options may keep what it knows of files and directories. */
    private static double lateWith(String options) {
        double file = Limits.REMOTE_LATE_SECONDS;
        double directory = file;
        for (String option : options.split(",")) {
            if (option.equals("noac")) {
                return 0;
            }
            Matcher given = LATE.matcher(option);
            if (given.matches()) {
                double seconds = Double.parseDouble(given.group(2));
                file = given.group(1).equals("acdirmax") ? file : seconds;
                directory = given.group(1).equals("acregmax") ? directory : seconds;
            }
        }
        return Math.max(file, directory);
    }

    /** The mount whose point is the longest prefix of the path; the last one mounted there wins. */
    private static String[] mountOf(String path) {
        String best = "";
        String[] found = UNKNOWN;
        try {
            String real = Path.of(path).toRealPath().toString();
            for (String line : mounts()) {
                String[] fields = line.split(" ");
                String point = fields.length > OPTIONS ? unescaped(fields[1]) : "";
                boolean inside = point.equals("/") || real.equals(point) || real.startsWith(point + "/");
                if (!point.isEmpty() && inside && point.length() >= best.length()) {
                    best = point;
                    found = fields;
                }
            }
        } catch (IOException unreadable) {
            return UNKNOWN;
        }
        return found;
    }

    private static List<String> mounts() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/mounts"), StandardCharsets.ISO_8859_1);
    }

    private static String unescaped(String point) {
        return point.replace("\\040", " ")
                .replace("\\011", "\t")
                .replace("\\012", "\n")
                .replace("\\134", "\\");
    }

    /** Only what a filesystem says that has none counts: a node must not poll for life because of anything else. */
    private static boolean hasFifos(String path) {
        String name = path + "/" + Directory.uniqueName("fifo");
        try {
            Posix.makeFifo(name);
        } catch (PosixException error) {
            if (NO_FIFOS.contains(error.errno())) {
                return false;
            }
            throw new RootException(
                    "cannot use the root " + error.getMessage() + "; choose another, or see " + "`speed root doctor`");
        }
        Posix.removeQuietly(name);
        return true;
    }
}
