package speed.runtime;

/**
 * A core of its own for a thread that polls. Who rings has the kernel wake the reader on the ringing thread's core,
 * where the two then poll by turns while another core idles, until the balancer looks
 * (registry_spec/decisions/0033). Used by the thread that holds the protocol role.
 */
final class OwnCore {
    /** A yield takes less than a microsecond where nobody else wants the core: meanwhile somebody ran here. */
    static final long TURN_NANOS = 4_000;

    private static final double GOLDEN_RATIO = 0.618034;

    static final int PATIENCE = 4;
    /** At least, between two moves: they cost tens of microseconds. */
    static final long REST_NANOS = 4_000_000;

    /** 1 to 2, and far apart for processes with neighbouring ids. */
    private final double spread;

    private boolean shared;
    private int turns;
    private long restsUntil = Long.MIN_VALUE;

    /** Of two processes that share a core one has to leave: who both did, and met again, rest for different times. */
    OwnCore(long processId) {
        spread = 1 + processId * GOLDEN_RATIO % 1;
    }

    /** Lets another that waits for this core run; returns the time behind that. */
    long giveTurn() {
        long before = System.nanoTime();
        Thread.yield();
        long now = System.nanoTime();
        took(now - before);
        return now;
    }

    /** A turn of another took this long, if there was one. */
    void took(long nanos) {
        shared |= nanos > TURN_NANOS;
    }

    /** A poll brought something: whether to leave this core, after several in a row by turns with another. */
    boolean hit(long now) {
        if (!shared) {
            turns = 0;
            return false;
        }
        shared = false;
        if (++turns < PATIENCE || now < restsUntil) {
            return false;
        }
        turns = 0;
        restsUntil = now + (long) (spread * REST_NANOS);
        return true;
    }
}
