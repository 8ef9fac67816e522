package speed.internal.wire;

/** Sequence numbers: generation in the upper 24 bits, counter in the lower 40. Compare as unsigned. */
public final class Sequence {
    public static final long MAX_COUNTER = (1L << Limits.COUNTER_BITS) - 1;

    private Sequence() {}

    public static long of(int generation, long counter) {
        return (long) generation << Limits.COUNTER_BITS | counter;
    }

    public static int generation(long sequence) {
        return (int) (sequence >>> Limits.COUNTER_BITS);
    }

    public static long counter(long sequence) {
        return sequence & MAX_COUNTER;
    }
}
