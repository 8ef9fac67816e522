package speed.internal.fs;

import java.io.Closeable;
import java.nio.file.Path;
import speed.errors.ConfigurationException;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.segment.Source;
import speed.internal.wire.Block;

/** A payload in a regular file, as large as the file is when it is opened. For one thread at a time. */
public final class FileSource implements Source, Closeable {
    private static final int STEP_BYTES = 1 << 20;

    private final String path;
    private final int descriptor;
    private final long size;
    private final Block step = new Block(STEP_BYTES);

    /** Opens a file of the program's own choice. ConfigurationException when it cannot be read. */
    public FileSource(Path file) {
        path = file.toAbsolutePath().toString();
        try {
            descriptor = Posix.open(path, Posix.O_RDONLY | Posix.O_NONBLOCK, 0);
            FileStatus status = Posix.status(descriptor);
            if (!status.isRegular()) {
                Posix.close(descriptor);
                throw new ConfigurationException(path + " is no regular file: only such can be sent");
            }
            size = status.size();
        } catch (PosixException error) {
            throw new ConfigurationException("the file cannot be sent: " + error.getMessage());
        }
    }

    @Override
    public long size() {
        return size;
    }

    @Override
    public void read(long from, byte[] into, int at, int count) {
        try {
            for (int done = 0; done < count; ) {
                int wanted = Math.min(STEP_BYTES, count - done);
                if (Posix.read(descriptor, step, wanted, from + done) < wanted) {
                    throw new ConfigurationException(path + " became shorter while it was sent: send it again");
                }
                step.bytes.get(0, into, at + done, wanted);
                done += wanted;
            }
        } catch (PosixException error) {
            throw new ConfigurationException("the file cannot be sent: " + error.getMessage());
        }
    }

    @Override
    public void close() {
        Posix.close(descriptor);
    }
}
