package speed.fs;

import java.lang.ref.Reference;
import java.nio.ByteOrder;
import speed.wire.Block;

/** The processor cores that the calling thread may use. */
public final class Cores {
    private static final int MASK_BYTES = 1024;

    private Cores() {}

    /** Moves the calling thread to another core that it may use, with its affinity as before; false without one. */
    public static boolean leaveThisCore() {
        Block allowed = new Block(MASK_BYTES);
        allowed.bytes.order(ByteOrder.nativeOrder());
        int here = Libc.sched_getcpu();
        if (here < 0 || here >= MASK_BYTES * 8 || Libc.sched_getaffinity(0, MASK_BYTES, allowed.address) < 0) {
            return false;
        }
        int word = here / 64 * 8;
        long with = allowed.bytes.getLong(word);
        allowed.bytes.putLong(word, with & ~(1L << here % 64));
        if (Libc.sched_setaffinity(0, MASK_BYTES, allowed.address) < 0) {
            return false; // no other core
        }
        allowed.bytes.putLong(word, with);
        Libc.sched_setaffinity(0, MASK_BYTES, allowed.address);
        Reference.reachabilityFence(allowed);
        return true;
    }
}
