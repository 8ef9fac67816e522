package speed.internal.fs;

import speed.internal.wire.Block;
import speed.internal.wire.Limits;
import speed.internal.wire.NodeId;

/**
 * A sender's end of another node's bell: opened write-only and non-blocking, so that a full bell never holds
 * up the sender and a bell without a reader says so at once. Thread-safe.
 */
public final class Ringer {
    private final String path;
    private final Block id;
    private int descriptor = -1;
    private boolean isShut;

    public Ringer(String path, NodeId source) {
        this.path = path;
        this.id = Block.of(source.bytes());
    }

    /** Rings; false when nobody listens. A bell whose reader went is opened once more: its owner may be back. */
    public synchronized boolean ring() {
        if (isShut) {
            return true; // its node has ended: no ring is missed
        }
        for (int attempt = 0; attempt < 2; attempt++) {
            if (descriptor() < 0) {
                return false;
            }
            try {
                Posix.write(descriptor, id, 0, Limits.NODE_ID_BYTES);
                return true;
            } catch (PosixException error) {
                if (error.is(PosixException.EAGAIN)) {
                    return true; // full: the receiver is awake and will scan
                }
                close();
            }
        }
        return false;
    }

    /** The open descriptor, to be watched for the death of the reader; -1 where nobody listens. */
    public synchronized int descriptor() {
        if (descriptor < 0 && !isShut) {
            descriptor = open();
        }
        return descriptor;
    }

    private int open() {
        int opened = -1;
        try {
            opened = Posix.open(path, Posix.O_WRONLY | Posix.O_NONBLOCK | Posix.O_NOFOLLOW, 0);
            if (Posix.status(opened).isFifo()) {
                return opened;
            }
        } catch (PosixException nobody) { // ENXIO: no reader; ENOENT: never started; ELOOP: a link
            // whoever waits there finds what was sent by a scan
        }
        Posix.close(opened);
        return -1;
    }

    public synchronized void close() {
        Posix.close(descriptor);
        descriptor = -1;
    }

    /** Closes for good: it is not opened again. */
    public synchronized void shut() {
        isShut = true;
        close();
    }
}
