package speed.internal.fs;

import com.sun.jna.Native;
import com.sun.jna.Platform;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import speed.errors.RootException;
import speed.internal.fs.Posix.FileStatus;
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

    /**
     * A sender's end of another node's bell: opened write-only and non-blocking, so that a full bell never holds
     * up the sender and a bell without a reader says so at once. Thread-safe.
     */
    public static final class Ringer {
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

    /** Waits until the own bell rings or the reader of another node's bell dies: one epoll object. */
    public static final class Waker {
        private static final int ADD = 1;
        private static final int DELETE = 2;
        private static final int EPOLLIN = 1;
        private static final int MOST = 16;
        /** The kernel packs struct epoll_event on x86-64 only. */
        private static final int DATA_AT = Platform.isARM() ? 8 : 4;

        private static final int EVENT_BYTES = DATA_AT + 8;

        private final Bell bell;
        private final Block events = new Block(MOST * EVENT_BYTES);
        private final Map<Integer, String> watched = new ConcurrentHashMap<>();
        private int epoll;

        public Waker(Bell bell) throws PosixException {
            this.bell = bell;
            events.bytes.order(ByteOrder.nativeOrder());
            epoll = Posix.aboveStandard(Libc.epoll_create1(Posix.O_CLOEXEC));
            if (epoll < 0 || !control(ADD, bell.descriptor(), EPOLLIN)) {
                throw Posix.failure(Native.getLastError(), "epoll");
            }
        }

        /** Learns at once when the reader of another node's bell dies: the kernel reports it as EPOLLERR. */
        public void watch(Ringer ringer, String target) {
            int descriptor = ringer.descriptor();
            if (descriptor >= 0 && epoll >= 0) {
                control(ADD, descriptor, 0); // EEXIST: the number of a descriptor that is watched again
                watched.put(descriptor, target);
            }
        }

        /** Blocks until something happens or the time is over; names the nodes whose bell lost its reader. */
        public void await(int timeoutMs, Consumer<String> died) {
            int count = Libc.epoll_wait(epoll, events.address, MOST, timeoutMs);
            for (int index = 0; index < count; index++) {
                int descriptor = events.bytes.getInt(index * EVENT_BYTES + DATA_AT);
                if (descriptor != bell.descriptor()) {
                    String target = watched.remove(descriptor);
                    control(DELETE, descriptor, 0);
                    if (target != null) {
                        died.accept(target);
                    }
                }
            }
        }

        private boolean control(int operation, int descriptor, int wanted) {
            Block event = new Block(EVENT_BYTES);
            event.bytes.order(ByteOrder.nativeOrder()).putInt(0, wanted).putLong(DATA_AT, descriptor);
            boolean done = Libc.epoll_ctl(epoll, operation, descriptor, event.address) == 0;
            Reference.reachabilityFence(event);
            return done;
        }

        public void close() {
            Posix.close(epoll);
            epoll = -1;
        }
    }
}
