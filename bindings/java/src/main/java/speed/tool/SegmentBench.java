package speed.tool;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import speed.internal.segment.Assembler;
import speed.internal.segment.Keccak;
import speed.internal.segment.Segment;
import speed.internal.segment.Source;
import speed.internal.segment.Splitter;

/**
 * How fast payloads are hashed, cut and put together, in MB for each second of processor time: one line each, the best
 * of some rounds. The hash is one sequence and bounds what a thread can cut, so cutting stands also without it.
 */
public final class SegmentBench {
    private static final int ROUNDS = 5;
    private static final int SEGMENT_BYTES = 1 << 20;

    private SegmentBench() {}

    /**
     * Measures.
     *
     * @param line MB of the payload, or nothing
     */
    public static void main(String[] line) {
        byte[] payload = new byte[(line.length == 0 ? 64 : Integer.parseInt(line[0])) * 1_000_000];
        new Random(1).nextBytes(payload);
        Source source = Source.of(payload);
        byte[] hash = Keccak.of(payload);
        Splitter plain = new Splitter(SEGMENT_BYTES, 0);
        Splitter coded = new Splitter(SEGMENT_BYTES);
        say("Keccak-256 alone", payload, () -> Keccak.of(payload));
        say(
                "segments, no parity, hash apart",
                payload,
                () -> written(Splitter.cut(source, plain.shape(source.size()), hash)));
        say("segments, no parity, with the hash", payload, () -> written(plain.split(payload)));
        say(
                "segments with parity 0.125, hash apart",
                payload,
                () -> written(Splitter.cut(source, coded.shape(source.size()), hash)));
        say("segments with parity 0.125 and the hash", payload, () -> written(coded.split(payload)));
        say("put together, an eighth lost", payload, lossy(coded.split(payload)));
    }

    private static void written(Iterable<Segment> segments) {
        for (Segment segment : segments) {
            segment.write();
        }
    }

    /** Puts together what is left without the first segments, as many as there are of parity. */
    private static Runnable lossy(Iterable<Segment> segments) {
        List<byte[]> arriving = new ArrayList<>();
        for (Segment segment : segments) {
            if (segment.isParity() || segment.index() >= segment.parityCount()) {
                arriving.add(segment.write());
            }
        }
        return () -> {
            Assembler assembler = new Assembler();
            for (byte[] data : arriving) {
                if (assembler.receive("sender", data, 0).payload() != null) {
                    return;
                }
            }
            throw new AssertionError("not put together");
        };
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

    private static void say(String what, byte[] payload, Runnable work) {
        System.out.printf("%-44s %7.0f MB/s%n", what, payload.length / best(work) / 1e6);
    }
}
