package speed.internal.fs;

import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import java.util.Map;

/**
 * The functions of the C library that SPEED calls; addresses and sizes are longs. A character of a path is a byte,
 * since file names that others made may be no text. {@link Posix} wraps them.
 */
final class Libc {
    static {
        Map<String, String> options = Map.of(Library.OPTION_STRING_ENCODING, "ISO-8859-1");
        Native.register(Libc.class, NativeLibrary.getInstance("c", options));
    }

    private Libc() {}

    static native int openat(int directory, String path, int flags, int mode);

    static native int close(int descriptor);

    static native long read(int descriptor, long buffer, long bytes);

    static native long pread(int descriptor, long buffer, long bytes, long offset);

    static native long write(int descriptor, long buffer, long bytes);

    static native long pwrite(int descriptor, long buffer, long bytes, long offset);

    static native int statx(int directory, String path, int flags, int mask, long buffer);

    /** The same with the address of a path. */
    static native int statx(int directory, long path, int flags, int mask, long buffer);

    static native long lseek(int descriptor, long offset, int whence);

    static native long getdents64(int descriptor, long buffer, long bytes);

    static native int mkdirat(int directory, String path, int mode);

    static native int unlinkat(int directory, String path, int flags);

    static native int renameat(int fromDirectory, String from, int toDirectory, String to);

    static native int linkat(int fromDirectory, String from, int toDirectory, String to, int flags);

    static native long readlink(String path, long buffer, long bytes);

    static native int mkfifo(String path, int mode);

    static native int chmod(String path, int mode);

    static native int fchmod(int descriptor, int mode);

    static native int faccessat(int directory, String path, int mode, int flags);

    static native int fcntl(int descriptor, int command, int argument);

    static native int flock(int descriptor, int operation);

    /** Returns the errno itself. */
    static native int posix_fallocate(int descriptor, long offset, long bytes);

    static native int ftruncate(int descriptor, long bytes);

    static native int fsync(int descriptor);

    static native int fdatasync(int descriptor);

    static native long lgetxattr(String path, String name, long value, long bytes);

    static native int geteuid();

    static native int getegid();

    static native int getgroups(int most, long groups);

    static native int getpid();

    static native int gettid();

    static native int kill(int pid, int signal);

    static native int clock_gettime(int clock, long buffer);

    static native int getrlimit(int resource, long limits);

    static native int epoll_create1(int flags);

    static native int epoll_ctl(int epoll, int operation, int descriptor, long event);

    static native int epoll_wait(int epoll, long events, int most, int timeoutMs);

    static native int sched_getcpu();

    static native int sched_getaffinity(int thread, long bytes, long mask);

    static native int sched_setaffinity(int thread, long bytes, long mask);

    static native String strerror(int errno);
}
