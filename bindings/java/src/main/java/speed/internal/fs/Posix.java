package speed.internal.fs;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.jna.Native;
import com.sun.jna.Platform;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import speed.errors.ConfigurationException;
import speed.internal.core.Trust;
import speed.internal.fs.PosixException.UnclearRenameException;
import speed.internal.wire.Block;

/**
 * System calls with Java's manners: -1 becomes a {@link PosixException}, EINTR is tried again.
 *
 * <p>The JDK has no openat with O_NOFOLLOW and O_NONBLOCK for files that others made, no mkfifo, no look at an open
 * descriptor, and closes a channel when the thread that uses it is interrupted. So these calls go to libc.
 */
public final class Posix {
    static final int AT_FDCWD = -100;
    static final int PRIVATE_DIRECTORY = 0700;
    static final int PRIVATE_FILE = 0600;
    static final int O_RDONLY = 0;
    static final int O_WRONLY = 1;
    static final int O_RDWR = 2;
    static final int O_CREAT = 0x40;
    static final int O_EXCL = 0x80;
    static final int O_TRUNC = 0x200;
    static final int O_APPEND = 0x400;
    static final int O_NONBLOCK = 0x800;
    static final int O_CLOEXEC = 0x80000;
    static final int O_DIRECTORY = Platform.isARM() ? 0x4000 : 0x10000;
    static final int O_NOFOLLOW = Platform.isARM() ? 0x8000 : 0x20000;
    static final int AT_REMOVEDIR = 0x200;
    private static final int F_DUPFD_CLOEXEC = 1030;
    private static final int FIRST_OWN = 3;
    private static final int F_GETPIPE_SZ = 1032;
    private static final int AT_SYMLINK_NOFOLLOW = 0x100;
    private static final int AT_EMPTY_PATH = 0x1000;
    private static final int AT_EACCESS = 0x200;
    private static final int STATX_BASIC_STATS = 0x7FF;
    private static final int STATX_BYTES = 256;
    private static final int CLOCK_MONOTONIC = 1;
    private static final int CLOCK_REALTIME_COARSE = 5;
    private static final int CLOCK_BOOTTIME = 7;
    private static final int W_OK_X_OK = 3;
    private static final int PATH_BYTES = 4096;
    private static final int ATTRIBUTE_BYTES = 65536;
    private static final int MOST_GROUPS = 65536;
    private static final int RLIMIT_NOFILE = 7;
    private static final int LOCK_EX_NB = 6;

    private static final ThreadLocal<Block> SCRATCH = ThreadLocal.withInitial(() -> {
        Block block = new Block(STATX_BYTES);
        block.bytes.order(ByteOrder.nativeOrder());
        return block;
    });
    private static final Block EMPTY = Block.of(new byte[1]);
    private static final int USER = user();
    private static final long MONOTONIC_OFFSET =
            clock(CLOCK_MONOTONIC) - ClockOffsets.OWN.monotonic() - System.nanoTime();

    private Posix() {}

    private static int user() {
        if (!Platform.isLinux() || !Platform.is64Bit()) {
            throw new ConfigurationException("the Java node runs on 64-bit Linux only: use another node here");
        }
        return Libc.geteuid();
    }

    private static long clock(int which) {
        Block time = SCRATCH.get();
        Libc.clock_gettime(which, time.address);
        return time.bytes.getLong(0) * 1_000_000_000 + time.bytes.getLong(8);
    }

    /** The clock that modification times are taken from; it ticks every few milliseconds. */
    static long fileClockNanos() {
        return clock(CLOCK_REALTIME_COARSE);
    }

    /** The effective user. */
    public static int uid() {
        return USER;
    }

    /** Effective user and all groups of this process. */
    static Trust.Who who() {
        Block groups = new Block(MOST_GROUPS * Integer.BYTES);
        int count = Math.max(0, Libc.getgroups(MOST_GROUPS, groups.address));
        IntBuffer further = groups.bytes.order(ByteOrder.nativeOrder()).asIntBuffer();
        IntStream all = IntStream.concat(
                IntStream.of(Libc.getegid()), IntStream.range(0, count).map(further::get));
        return new Trust.Who(USER, all.boxed().collect(Collectors.toSet()));
    }

    public static int pid() {
        return Libc.getpid();
    }

    /** CLOCK_MONOTONIC of the initial time namespace: one clock for all processes of a boot. */
    public static long monotonicNanos() {
        return System.nanoTime() + MONOTONIC_OFFSET;
    }

    /** Lets time pass; false if this thread is to end. */
    static boolean pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
            return true;
        } catch (InterruptedException wanted) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    public static long monotonicMs() {
        return monotonicNanos() / 1_000_000;
    }

    /** CLOCK_BOOTTIME of the initial time namespace: what CLOCK_MONOTONIC shows, and the time that the machine slept. */
    public static long bootMs() {
        return (clock(CLOCK_BOOTTIME) - ClockOffsets.OWN.boottime()) / 1_000_000;
    }

    /** Whether a process exists that only another user may signal. */
    static boolean isForeignProcess(long pid) {
        return pid <= Integer.MAX_VALUE && Libc.kill((int) pid, 0) < 0 && Native.getLastError() == PosixException.EPERM;
    }

    /** How many descriptors this process may have. */
    public static long mostDescriptors() {
        Block limits = SCRATCH.get();
        Libc.getrlimit(RLIMIT_NOFILE, limits.address);
        long soft = limits.bytes.getLong(0);
        return soft < 0 ? Long.MAX_VALUE : soft;
    }

    // --- descriptors ---

    static int open(int directory, String path, int flags, int mode) throws PosixException {
        while (true) {
            int descriptor = Libc.openat(directory, spelled(directory, path), flags | O_CLOEXEC, mode);
            if (descriptor >= 0) {
                return aboveStandard(descriptor);
            }
            retryOrThrow(path);
        }
    }

    /**
     * The same file under a descriptor above those of standard input, output and error: a program that has closed
     * these may write to them all the same.
     */
    static int aboveStandard(int descriptor) throws PosixException {
        if (descriptor < 0 || descriptor >= FIRST_OWN) {
            return descriptor;
        }
        try {
            return duplicate(descriptor);
        } finally {
            close(descriptor);
        }
    }

    static int open(String path, int flags, int mode) throws PosixException {
        return open(AT_FDCWD, path, flags, mode);
    }

    static void close(int descriptor) {
        if (descriptor >= 0) {
            Libc.close(descriptor);
        }
    }

    /** Reads at the descriptor's own place; -1 where a non-blocking read would block. */
    static int read(int descriptor, Block into) throws PosixException {
        while (true) {
            long count = Libc.read(descriptor, into.address, into.size);
            Reference.reachabilityFence(into);
            if (count >= 0) {
                return (int) count;
            }
            if (Native.getLastError() == PosixException.EAGAIN) {
                return -1;
            }
            retryOrThrow("read");
        }
    }

    /** Reads at an offset until {@code length} bytes are there or the file ends; returns how many. */
    static int read(int descriptor, Block into, int length, long offset) throws PosixException {
        int done = 0;
        while (done < length) {
            long count = Libc.pread(descriptor, into.address + done, length - done, offset + done);
            Reference.reachabilityFence(into);
            if (count < 0) {
                retryOrThrow("read");
                continue;
            }
            if (count == 0) {
                break;
            }
            done += (int) count;
        }
        return done;
    }

    /** One write; returns how many bytes went, which may be fewer. */
    static int write(int descriptor, Block from, int start, int length) throws PosixException {
        while (true) {
            long count = Libc.write(descriptor, from.address + start, length);
            Reference.reachabilityFence(from);
            if (count >= 0) {
                return (int) count;
            }
            retryOrThrow("write");
        }
    }

    /** Writes all or throws. */
    static void writeAll(int descriptor, byte[] data) throws PosixException {
        Block block = Block.of(data);
        int done = 0;
        while (done < data.length) {
            done += write(descriptor, block, done, data.length - done);
        }
    }

    /** One write at an offset, whole for every reader; a short one is a failure. */
    static void writeAt(int descriptor, Block from, int length, long offset) throws PosixException {
        long written;
        while ((written = Libc.pwrite(descriptor, from.address, length, offset)) < 0) {
            retryOrThrow("write");
        }
        Reference.reachabilityFence(from);
        if (written < length) {
            throw new PosixException(PosixException.EIO, "a short write");
        }
    }

    /** Writes all at an offset or throws. */
    static void writeAll(int descriptor, Block from, int length, long offset) throws PosixException {
        int done = 0;
        while (done < length) {
            long count = Libc.pwrite(descriptor, from.address + done, length - done, offset + done);
            Reference.reachabilityFence(from);
            if (count < 0) {
                retryOrThrow("write");
                continue;
            }
            done += (int) count;
        }
    }

    /** A second descriptor of the same file; -1 of none. */
    static int duplicate(int descriptor) throws PosixException {
        if (descriptor < 0) {
            return -1;
        }
        int copy = Libc.fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_OWN);
        check(copy, "dup");
        return copy;
    }

    /** How many bytes a pipe holds. */
    static int pipeBytes(int descriptor) throws PosixException {
        int bytes = Libc.fcntl(descriptor, F_GETPIPE_SZ, 0);
        check(bytes, "fcntl");
        return bytes;
    }

    /** Whether the file is locked now, until its descriptor is closed; false while others have it locked. */
    static boolean tryLock(int descriptor) throws PosixException {
        while (Libc.flock(descriptor, LOCK_EX_NB) < 0) {
            if (Native.getLastError() == PosixException.EAGAIN) {
                return false;
            }
            retryOrThrow("flock");
        }
        return true;
    }

    /** Gives a stretch of a file its space: it can be written then however full the disk is. */
    static void reserve(int descriptor, long offset, long bytes) throws PosixException {
        int errno;
        do {
            errno = Libc.posix_fallocate(descriptor, offset, bytes);
        } while (errno == PosixException.EINTR);
        if (errno != 0) {
            throw failure(errno, "reserve");
        }
    }

    /** Leaves so many bytes of a file, if that can be done. */
    static void cut(int descriptor, long bytes) {
        Libc.ftruncate(descriptor, bytes);
    }

    static void sync(int descriptor) throws PosixException {
        check(Libc.fsync(descriptor), "fsync");
    }

    static void syncData(int descriptor) throws PosixException {
        check(Libc.fdatasync(descriptor), "fdatasync");
    }

    // --- names ---

    /** What an open descriptor leads to. */
    static FileStatus status(int descriptor) throws PosixException {
        Block block = SCRATCH.get();
        check(Libc.statx(descriptor, EMPTY.address, AT_EMPTY_PATH, STATX_BASIC_STATS, block.address), "fstat");
        return FileStatus.of(block.bytes);
    }

    /** What a name leads to; a link is not followed. */
    static FileStatus status(int directory, String path) throws PosixException {
        Block block = SCRATCH.get();
        String name = spelled(directory, path);
        check(Libc.statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, block.address), path);
        return FileStatus.of(block.bytes);
    }

    /** What a link says. */
    static String readLink(String path) throws PosixException {
        Block target = new Block(PATH_BYTES);
        int length = (int) Libc.readlink(spelled(AT_FDCWD, path), target.address, target.size);
        check(length, path);
        return new String(target.copy(0, length), UTF_8);
    }

    /** An extended attribute of what a path leads to; a link is not followed. Null if there is none. */
    static byte[] attribute(String path, String name) throws PosixException {
        Block value = new Block(ATTRIBUTE_BYTES);
        int length = (int) Libc.lgetxattr(spelled(AT_FDCWD, path), name, value.address, value.size);
        int errno = length < 0 ? Native.getLastError() : 0;
        if (errno == PosixException.ENODATA || errno == PosixException.EOPNOTSUPP) {
            return null;
        }
        if (errno != 0) {
            throw failure(errno, path);
        }
        return value.copy(0, length);
    }

    static void makeDirectory(String path) throws PosixException {
        check(Libc.mkdirat(AT_FDCWD, spelled(AT_FDCWD, path), PRIVATE_DIRECTORY), path);
    }

    static void makeFifo(String path) throws PosixException {
        check(Libc.mkfifo(spelled(AT_FDCWD, path), PRIVATE_FILE), path);
    }

    static void remove(int directory, String path, int flags) throws PosixException {
        check(Libc.unlinkat(directory, spelled(directory, path), flags), path);
    }

    /** Removes a file, if it is there and can be removed. */
    static void removeQuietly(String path) {
        Libc.unlinkat(AT_FDCWD, spelled(AT_FDCWD, path), 0);
    }

    static void rename(int fromDirectory, String from, int toDirectory, String to) throws PosixException {
        int result = Libc.renameat(fromDirectory, spelled(fromDirectory, from), toDirectory, spelled(toDirectory, to));
        check(result, from);
    }

    /**
     * Renames. Only this process uses the temporary name. A network filesystem may repeat a request that was carried
     * out, and report the failure of the repetition: opening the old name tells.
     *
     * @throws UnclearRenameException when it could not be found out whether it took place
     */
    static void putInPlace(int directory, String temporary, String name) throws PosixException {
        try {
            rename(directory, temporary, directory, name);
        } catch (PosixException error) {
            try {
                close(open(directory, temporary, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0));
            } catch (PosixException old) {
                if (old.is(PosixException.ENOENT)) {
                    return;
                }
                throw new UnclearRenameException(error);
            }
            throw error;
        }
    }

    /** Gives a file a second name; never replaces what has it. */
    static void link(String path, String newPath) throws PosixException {
        int result = Libc.linkat(AT_FDCWD, spelled(AT_FDCWD, path), AT_FDCWD, spelled(AT_FDCWD, newPath), 0);
        check(result, newPath);
    }

    static void changeMode(String path, int mode) throws PosixException {
        check(Libc.chmod(spelled(AT_FDCWD, path), mode), path);
    }

    static void changeMode(int descriptor, int mode) throws PosixException {
        check(Libc.fchmod(descriptor, mode), "fchmod");
    }

    static boolean isWritable(String path) {
        return Libc.faccessat(AT_FDCWD, spelled(AT_FDCWD, path), W_OK_X_OK, AT_EACCESS) == 0;
    }

    /** Whole paths are text; a name in an open directory is the bytes that its listing brought. */
    private static String spelled(int directory, String path) {
        boolean isText = directory == AT_FDCWD && !path.chars().allMatch(one -> one < 128);
        return isText ? new String(path.getBytes(UTF_8), ISO_8859_1) : path;
    }

    // --- failures ---

    private static void check(int result, String what) throws PosixException {
        if (result < 0) {
            throw failure(Native.getLastError(), what);
        }
    }

    private static void retryOrThrow(String what) throws PosixException {
        int errno = Native.getLastError();
        if (errno != PosixException.EINTR) {
            throw failure(errno, what);
        }
    }

    static PosixException failure(int errno, String what) {
        return new PosixException(errno, what + ": " + Libc.strerror(errno));
    }

    /** What statx(2) says of a file; its layout is the same on every architecture. */
    record FileStatus(int mode, int uid, int gid, long links, long inode, long size, long modifiedNanos) {
        private static final int TYPE = 0xF000;
        private static final int FIFO = 0x1000;
        private static final int DIRECTORY = 0x4000;
        private static final int REGULAR = 0x8000;
        private static final int LINK = 0xA000;

        static FileStatus of(ByteBuffer statx) {
            long modified = statx.getLong(112) * 1_000_000_000 + statx.getInt(120);
            return new FileStatus(
                    statx.getShort(28) & 0xFFFF,
                    statx.getInt(20),
                    statx.getInt(24),
                    statx.getInt(16) & 0xFFFFFFFFL,
                    statx.getLong(32),
                    statx.getLong(40),
                    modified);
        }

        Trust.Step step(List<byte[]> accessLists) {
            return new Trust.Step(uid, gid, mode, accessLists);
        }

        /** Whether it is a directory of a group root. */
        boolean isShared() {
            return isDirectory() && Trust.isShared(mode);
        }

        boolean isRegular() {
            return (mode & TYPE) == REGULAR;
        }

        boolean isDirectory() {
            return (mode & TYPE) == DIRECTORY;
        }

        boolean isLink() {
            return (mode & TYPE) == LINK;
        }

        boolean isFifo() {
            return (mode & TYPE) == FIFO;
        }

        boolean has(int permission) {
            return (mode & permission) != 0;
        }
    }

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
}
