package speed.internal.fs;

import com.sun.jna.Native;
import com.sun.jna.Platform;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import speed.internal.wire.Block;

/** Waits until the own bell rings or the reader of another node's bell dies: one epoll object. */
public final class Waker {
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
