package speed.internal.fs;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.StorageException;
import speed.internal.GuardedBy;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Block;
import speed.internal.wire.Json;
import speed.message.AuditLog;

/** An audit log in a file, one write a line; beyond its size the file becomes {@code path.1}. Thread-safe. */
public final class AuditLines implements AuditLog {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSxxx");
    /** A FIFO that nobody reads is refused, and not waited for. */
    private static final int FLAGS =
            Posix.O_WRONLY | Posix.O_APPEND | Posix.O_CREAT | Posix.O_NOFOLLOW | Posix.O_NONBLOCK;

    private static final int OTHERS_WRITE = 022;
    private static final int NONE = -1;

    private final String path;
    private final long maxBytes;
    private final int kept;

    @GuardedBy("this")
    private int file = NONE;

    @GuardedBy("this")
    private boolean isClosed;
    /** A write broke off in the middle of a line. */
    @GuardedBy("this")
    private boolean isTorn;

    /** StorageException when it cannot be opened. */
    public AuditLines(String path, long maxBytes, int kept) {
        this.path = path;
        this.maxBytes = maxBytes;
        this.kept = kept;
        try {
            file = open();
        } catch (PosixException error) {
            throw failed(error.getMessage());
        }
    }

    @GuardedBy("this")
    private int open() throws PosixException {
        int opened = Posix.open(path, FLAGS, Posix.PRIVATE_FILE);
        FileStatus status = Posix.status(opened);
        boolean isOwn = status.uid() == Posix.uid() || status.uid() == 0;
        if (!status.isRegular() || !isOwn || status.has(OTHERS_WRITE)) {
            Posix.close(opened);
            throw new PosixException(
                    PosixException.EPERM, "it is no regular file of this user, which nobody else may write");
        }
        return opened;
    }

    @Override
    public void write(Map<String, Object> line) {
        Map<String, Object> stamped = new LinkedHashMap<>();
        stamped.put("time", TIME.format(OffsetDateTime.now(ZoneOffset.UTC)));
        stamped.putAll(line);
        append(Json.write(stamped) + "\n");
    }

    private synchronized void append(String line) {
        if (isClosed) {
            throw failed("it is closed");
        }
        try {
            makeRoom(line.length());
            byte[] data = (isTorn ? "\n" + line : line).getBytes(US_ASCII);
            int written = Posix.write(file, Block.of(data), 0, data.length);
            isTorn = written < data.length && (isTorn || written > 0);
            if (written < data.length) {
                throw failed("a line did not fit");
            }
        } catch (PosixException error) {
            throw failed(error.getMessage());
        }
    }

    /** After a failure there may be no file at hand. */
    @GuardedBy("this")
    private void makeRoom(int bytes) throws PosixException {
        if (file == NONE) {
            file = open();
        }
        if (Posix.status(file).size() + bytes > maxBytes) {
            rotate();
        }
    }

    @GuardedBy("this")
    private void rotate() throws PosixException {
        Posix.close(file);
        file = NONE;
        for (int number = kept - 1; number > 0; number--) {
            renameIfThere(path + "." + number, path + "." + (number + 1));
        }
        renameIfThere(path, path + ".1");
        isTorn = false;
        file = open();
    }

    private static void renameIfThere(String from, String to) throws PosixException {
        try {
            Posix.rename(Posix.AT_FDCWD, from, Posix.AT_FDCWD, to);
        } catch (PosixException error) {
            if (!error.is(PosixException.ENOENT)) {
                throw error;
            }
        }
    }

    private StorageException failed(String why) {
        return new StorageException("the audit log " + path + " cannot be written: " + why + "; nothing was done", 0);
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        Posix.close(file);
        file = NONE;
    }

    @Override
    public String toString() {
        return "AuditLog " + path;
    }
}
