package speed.internal.fs;

import java.io.IOException;
import java.util.Set;

/** A system call failed; the message is that of the operating system. */
public class PosixException extends IOException {
    private static final long serialVersionUID = 1L;

    public static final int EPERM = 1;
    public static final int ENOENT = 2;
    public static final int ESRCH = 3;
    public static final int EINTR = 4;
    public static final int EIO = 5;
    public static final int EAGAIN = 11;
    public static final int ENOMEM = 12;
    public static final int EACCES = 13;
    public static final int EEXIST = 17;
    public static final int ENOTDIR = 20;
    public static final int ENFILE = 23;
    public static final int EMFILE = 24;
    public static final int EFBIG = 27;
    public static final int ENOSPC = 28;
    public static final int ENOSYS = 38;
    public static final int ELOOP = 40;
    public static final int ENODATA = 61;
    public static final int EOPNOTSUPP = 95;
    public static final int ESTALE = 116;
    public static final int EDQUOT = 122;

    private static final Set<Integer> FAILING = Set.of(EIO, ENOMEM, ENFILE, EMFILE, ESTALE);

    private final int errno;

    public PosixException(int errno, String message) {
        super(message);
        this.errno = errno;
    }

    public int errno() {
        return errno;
    }

    public boolean is(int wanted) {
        return errno == wanted;
    }

    /** Whether the system failed, so that what is there is not known: it counts neither as absent nor as changed. */
    boolean saysFailed() {
        return FAILING.contains(errno);
    }

    /** Whether opening a file for reading found none, or none that may be trusted: the system did not fail. */
    boolean saysGone() {
        return errno == ENOENT || errno == EPERM;
    }

    /** A rename failed, and whether it took place all the same could not be found out. */
    static final class UnclearRenameException extends PosixException {
        private static final long serialVersionUID = 1L;

        UnclearRenameException(PosixException failure) {
            super(failure.errno(), failure.getMessage());
        }
    }
}
