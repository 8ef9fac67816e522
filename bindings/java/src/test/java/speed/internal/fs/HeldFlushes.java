package speed.internal.fs;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.Pointer;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** {@code fdatasync} as this process calls it: counted, held until told, failing when told. No disk fails to order. */
public final class HeldFlushes implements AutoCloseable {
    private static final int SECONDS = 60;

    /** The C function. */
    private interface Function extends Callback {
        int invoke(int descriptor);
    }

    private final Semaphore begun = new Semaphore(0);
    private final Semaphore released = new Semaphore(0);
    private final AtomicInteger count = new AtomicInteger();
    private volatile boolean isFailing;
    private final Function held = this::flush; // as long as the C library may call it

    public HeldFlushes() {
        Posix.pid(); // the first use binds the usual functions
        Pointer address = CallbackReference.getFunctionPointer(held);
        FailingCall.bind("fdatasync", address);
    }

    private int flush(int descriptor) {
        count.incrementAndGet();
        begun.release();
        return acquired(released) && !isFailing ? Libc.fsync(descriptor) : -1;
    }

    private static boolean acquired(Semaphore semaphore) {
        try {
            return semaphore.tryAcquire(SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException unexpected) {
            return false;
        }
    }

    /** Returns when one more flush has begun. */
    public void awaitBegun() {
        if (!acquired(begun)) {
            throw new AssertionError("no flush began");
        }
    }

    /** Lets so many flushes end. */
    public void release(int flushes) {
        released.release(flushes);
    }

    /** Whether those that end from now on fail. */
    public void fail(boolean failing) {
        isFailing = failing;
    }

    /** How many have begun. */
    public int count() {
        return count.get();
    }

    @Override
    public void close() {
        FailingCall.bindUsual();
    }
}
