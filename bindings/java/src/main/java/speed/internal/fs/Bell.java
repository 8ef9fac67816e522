package speed.internal.fs;

import java.util.HashSet;
import java.util.Set;
import speed.errors.RootException;
import speed.internal.wire.Block;
import speed.internal.wire.Limits;
import speed.internal.wire.NodeId;

/**
 * The receiver's end of the wake-up FIFO: open read-write, so that it never sees end-of-file, and
 * non-blocking. The holder of the protocol role drains; anybody may wake.
 */
public final class Bell {
    private static final int READ_BYTES = 65536;

    private final Block rung = new Block(READ_BYTES);
    private final Block wakeUp = new Block(Limits.NODE_ID_BYTES);
    private final NodeId own;
    /** What a read that found the pipe full brings. */
    private final int full;
    private volatile int descriptor;

    private Bell(int descriptor, int pipeBytes, NodeId own) {
        this.descriptor = descriptor;
        full = Math.min(pipeBytes, READ_BYTES);
        this.own = own;
    }

    /** Makes the FIFO if it is absent and opens it; RootException if something else is there. */
    public static Bell open(String path, NodeId own) {
        int descriptor = -1;
        try {
            makeIfAbsent(path);
            descriptor = Posix.open(path, Posix.O_RDWR | Posix.O_NONBLOCK | Posix.O_NOFOLLOW, 0);
            FileStatus status = Posix.status(descriptor);
            boolean shared = status.isFifo() && Directory.shareIn(path, descriptor);
            if (status.isFifo() && (status.uid() == Posix.uid() || shared)) {
                return new Bell(descriptor, Posix.pipeBytes(descriptor), own);
            }
        } catch (PosixException error) {
            Posix.close(descriptor);
            throw new RootException("cannot open the bell " + error.getMessage());
        }
        Posix.close(descriptor);
        throw new RootException(path + " is not a FIFO of this user; remove it");
    }

    private static void makeIfAbsent(String path) throws PosixException {
        try {
            Posix.makeFifo(path);
        } catch (PosixException error) {
            if (!error.is(PosixException.EEXIST)) {
                throw error;
            }
        }
    }

    /** Source ids rung since the last drain; null asks for a scan of everything. */
    public Set<NodeId> drain() throws PosixException {
        int length = Posix.read(descriptor, rung);
        if (length < 0) {
            return Set.of();
        }
        if (length == Limits.NODE_ID_BYTES) {
            return Set.of(NodeId.at(rung.bytes, 0));
        }
        if (length >= full || length % Limits.NODE_ID_BYTES != 0) {
            return null;
        }
        Set<NodeId> ids = new HashSet<>();
        for (int at = 0; at < length; at += Limits.NODE_ID_BYTES) {
            ids.add(NodeId.at(rung.bytes, at));
        }
        return ids;
    }

    /** Rings one's own bell, with one's own id. */
    public void wake() {
        wake(own);
    }

    /** Rings one's own bell, to have a lane looked at. */
    public void wake(NodeId id) {
        synchronized (wakeUp) {
            id.put(wakeUp.bytes, 0);
            try {
                if (descriptor >= 0) {
                    Posix.write(descriptor, wakeUp, 0, Limits.NODE_ID_BYTES);
                }
            } catch (PosixException full) {
                // the reader wakes anyhow
            }
        }
    }

    int descriptor() {
        return descriptor;
    }

    /** Closes the descriptor; the FIFO stays for the next start. */
    public void close() {
        synchronized (wakeUp) {
            Posix.close(descriptor);
            descriptor = -1;
        }
    }
}
