package speed.fuzz;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import speed.errors.SpeedException;
import speed.internal.wire.Limits;

/**
 * The target of {@code scripts/fuzz java}: the first byte of the input chooses the decoder. Bad bytes end with a named
 * error, soon, and with memory in proportion to the bytes at hand.
 */
public final class Fuzz {
    private static final Decoder[] DECODERS = Decoder.values();
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private Fuzz() {}

    /** Called by Jazzer with each input. */
    public static void fuzzerTestOneInput(byte[] input) {
        if (input.length > 0) {
            check(DECODERS[(input[0] & 0xff) % DECODERS.length], Arrays.copyOfRange(input, 1, input.length));
        }
    }

    /** Reads some bytes within the bounds; whether they keep the rules. */
    static boolean check(Decoder decoder, byte[] data) {
        Cost cost = Cost.of(decoder, data);
        if (cost.isTooMuch()) {
            cost = Cost.of(decoder, data); // the first reading of its kind loads classes as well
        }
        if (cost.isTooMuch()) {
            throw new AssertionError(decoder + ": " + cost);
        }
        return cost.sound;
    }

    /** What reading some bytes cost, and whether they kept the rules. */
    private record Cost(int length, long free, boolean sound, long nanos, long allocated) {
        /** What one byte may need: the smallest value of MessagePack as an entry of a map. */
        private static final long BYTES_FOR_A_BYTE = 512;

        private static final long FREE_BYTES = 1 << 20;
        /** A few bytes may be the compressed form of the largest payload (M-23). */
        private static final long DECOMPRESSED_BYTES = 2L * Limits.MAX_PAYLOAD_BYTES;

        private static final long MOST_NANOS = 1_000_000_000;

        static Cost of(Decoder decoder, byte[] data) {
            long allocated = THREADS.getCurrentThreadAllocatedBytes();
            long began = THREADS.getCurrentThreadCpuTime();
            boolean sound = isSound(decoder, data);
            long free = decoder == Decoder.PROTECTED ? DECOMPRESSED_BYTES : FREE_BYTES;
            return new Cost(
                    data.length,
                    free,
                    sound,
                    THREADS.getCurrentThreadCpuTime() - began,
                    THREADS.getCurrentThreadAllocatedBytes() - allocated);
        }

        private static boolean isSound(Decoder decoder, byte[] data) {
            try {
                decoder.read(data);
                return true;
            } catch (SpeedException refused) {
                return false;
            }
        }

        boolean isTooMuch() {
            return nanos > MOST_NANOS || allocated > free + BYTES_FOR_A_BYTE * length;
        }
    }
}
