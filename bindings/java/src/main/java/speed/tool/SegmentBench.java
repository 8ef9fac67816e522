package speed.tool;

import java.lang.management.ManagementFactory;
import java.util.Random;
import speed.segment.Keccak;
import speed.segment.Segment;
import speed.segment.Splitter;

/**
 * How fast payloads are hashed and cut, in MB for each second of processor time: one line each, the best of some rounds.
 * Parity alone is what cutting with it takes longer than hashing.
 */
public final class SegmentBench {
    private static final int PAYLOAD_BYTES = 64 << 20;
    private static final int ROUNDS = 5;
    private static final double PARITY_RATE = 0.125;
    /** 64 and 8 segments, in the field of bytes; 227 and 28 in the wide one. */
    private static final int[] SEGMENT_SIZES = {1 << 20, 295_680};

    private SegmentBench() {}

    /**
     * Measures.
     *
     * @param line nothing
     */
    public static void main(String[] line) {
        byte[] payload = new byte[PAYLOAD_BYTES];
        new Random(1).nextBytes(payload);
        double hash = best(() -> Keccak.of(payload));
        say("hash", hash);
        for (int size : SEGMENT_SIZES) {
            say("cut into " + size, best(() -> cut(payload, size, 0)));
            double both = best(() -> cut(payload, size, PARITY_RATE));
            say("cut into " + size + " with parity", both);
            say("parity alone", both - hash);
        }
    }

    private static void cut(byte[] payload, int size, double parityRate) {
        long bytes = 0;
        for (Segment segment : new Splitter(size, parityRate).split(payload)) {
            bytes += segment.payload().length;
        }
        if (bytes < payload.length) {
            throw new AssertionError(bytes);
        }
    }

    /** Seconds of processor time. */
    private static double best(Runnable work) {
        double best = Double.MAX_VALUE;
        for (int round = 0; round < ROUNDS; round++) {
            long began = cpuNanos();
            work.run();
            best = Math.min(best, (cpuNanos() - began) / 1e9);
        }
        return best;
    }

    private static long cpuNanos() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    private static void say(String what, double seconds) {
        System.out.printf("%-32s %6.0f MB/s%n", what, PAYLOAD_BYTES / seconds / 1e6);
    }
}
