package speed.fs;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import speed.wire.Names;

/** What kind of filesystem a root lies on, and whether FIFOs work there (L-7, L-22). */
public record Filesystem(String kind, boolean isMemory, boolean isRemote, boolean supportsFifo) {
    private static final Set<String> MEMORY = Set.of("tmpfs", "ramfs", "devtmpfs");
    private static final Set<String> REMOTE = Set.of("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs",
            "ceph", "lustre", "gpfs", "afs", "glusterfs", "beegfs");

    /** Describes the filesystem of an existing, writable directory; tries a FIFO there and removes it. */
    public static Filesystem of(String path) {
        String kind = kindOf(path);
        boolean remote = REMOTE.contains(kind) || kind.startsWith("fuse.") && !kind.equals("fuse.lxcfs");
        return new Filesystem(kind, MEMORY.contains(kind), remote, tryFifo(path));
    }

    /** Type of the mount whose point is the longest prefix of the path; the last one mounted there wins. */
    private static String kindOf(String path) {
        String best = "";
        String kind = "unknown";
        try {
            String real = Path.of(path).toRealPath().toString();
            for (String line : mounts()) {
                String[] fields = line.split(" ");
                String point = fields.length > 2 ? unescaped(fields[1]) : "";
                boolean inside = point.equals("/") || real.equals(point) || real.startsWith(point + "/");
                if (!point.isEmpty() && inside && point.length() >= best.length()) {
                    best = point;
                    kind = fields[2];
                }
            }
        } catch (IOException unreadable) {
            return "unknown";
        }
        return kind;
    }

    private static List<String> mounts() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/mounts"), StandardCharsets.ISO_8859_1);
    }

    private static String unescaped(String point) {
        return point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
    }

    private static boolean tryFifo(String path) {
        String name = path + "/" + Names.temporary("fifo." + Posix.pid() + "." + System.nanoTime());
        try {
            Posix.makeFifo(name);
            Posix.remove(Posix.AT_FDCWD, name, 0);
            return true;
        } catch (PosixException unsupported) {
            return false;
        }
    }
}
