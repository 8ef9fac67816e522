package speed.internal.segment;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/** Keccak-256 as it was before SHA-3 changed its padding, fed in parts. Not thread-safe. */
public final class Keccak {
    /** Size of a hash. */
    public static final int HASH_BYTES = 32;

    private static final int LANES = 25;
    /** Bytes taken at a time: 1600 bits less twice those of the hash. */
    private static final int RATE_BYTES = 136;
    private static final byte FIRST_PADDING = 0x01;
    private static final byte LAST_PADDING = (byte) 0x80;
    private static final int STEP_BYTES = 1 << 20;
    private static final VarHandle LANE =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final long[] lanes = new long[LANES];
    private final byte[] waiting = new byte[RATE_BYTES];
    private int waitingBytes;

    /** A hash of nothing yet. */
    public Keccak() {}

    /**
     * The hash of some bytes.
     *
     * @param data all of them
     * @return 32 bytes
     */
    public static byte[] of(byte[] data) {
        Keccak keccak = new Keccak();
        keccak.update(data, 0, data.length);
        return keccak.digest();
    }

    /**
     * The hash of a payload of any size, read in parts of bounded size.
     *
     * @param source where it is read from
     * @return 32 bytes
     */
    public static byte[] of(Source source) {
        Keccak keccak = new Keccak();
        byte[] part = new byte[(int) Math.min(source.size(), STEP_BYTES)];
        for (long at = 0; at < source.size(); at += part.length) {
            int count = (int) Math.min(part.length, source.size() - at);
            source.read(at, part, 0, count);
            keccak.update(part, 0, count);
        }
        return keccak.digest();
    }

    /**
     * Adds bytes.
     *
     * @param data holds them
     * @param from where they begin
     * @param count how many
     */
    public void update(byte[] data, int from, int count) {
        int at = from;
        int end = from + count;
        if (waitingBytes > 0) {
            int first = Math.min(count, RATE_BYTES - waitingBytes);
            System.arraycopy(data, from, waiting, waitingBytes, first);
            waitingBytes += first;
            at += first;
            if (waitingBytes < RATE_BYTES) {
                return;
            }
            absorb(lanes, waiting, 0);
        }
        for (; end - at >= RATE_BYTES; at += RATE_BYTES) {
            absorb(lanes, data, at);
        }
        waitingBytes = end - at;
        System.arraycopy(data, at, waiting, 0, waitingBytes);
    }

    /**
     * The hash of all bytes so far; more may follow.
     *
     * @return 32 bytes
     */
    public byte[] digest() {
        byte[] last = Arrays.copyOf(Arrays.copyOf(waiting, waitingBytes), RATE_BYTES);
        last[waitingBytes] ^= FIRST_PADDING;
        last[RATE_BYTES - 1] ^= LAST_PADDING;
        long[] state = lanes.clone();
        absorb(state, last, 0);
        byte[] hash = new byte[HASH_BYTES];
        for (int lane = 0; lane < HASH_BYTES / Long.BYTES; lane++) {
            LANE.set(hash, lane * Long.BYTES, state[lane]);
        }
        return hash;
    }

    private static void absorb(long[] state, byte[] data, int at) {
        for (int lane = 0; lane < RATE_BYTES / Long.BYTES; lane++) {
            state[lane] ^= (long) LANE.get(data, at + lane * Long.BYTES);
        }
        KeccakPermutation.permute(state);
    }
}
