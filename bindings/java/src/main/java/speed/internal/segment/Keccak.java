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
    private static final VarHandle LANE = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

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

    /**
     * Keccak-f[1600] (FIPS 202, 3.2 to 3.4), with its 25 lanes in local variables: lane x + 5y is {@code a<x + 5y>}. Written out
     * because nothing else in Java comes near 300 MB/s, and the payload waits for its hash.
     */
    static final class KeccakPermutation {
        private static final int ROUNDS = 24;
        private static final long[] CONSTANTS = {
            0x0000000000000001L, 0x0000000000008082L, 0x800000000000808AL, 0x8000000080008000L,
            0x000000000000808BL, 0x0000000080000001L, 0x8000000080008081L, 0x8000000000008009L,
            0x000000000000008AL, 0x0000000000000088L, 0x0000000080008009L, 0x000000008000000AL,
            0x000000008000808BL, 0x800000000000008BL, 0x8000000000008089L, 0x8000000000008003L,
            0x8000000000008002L, 0x8000000000000080L, 0x000000000000800AL, 0x800000008000000AL,
            0x8000000080008081L, 0x8000000000008080L, 0x0000000080000001L, 0x8000000080008008L
        };

        private KeccakPermutation() {}

        /** Permutes 25 lanes in place. */
        static void permute(long[] lanes) {
            long a0 = lanes[0];
            long a1 = lanes[1];
            long a2 = lanes[2];
            long a3 = lanes[3];
            long a4 = lanes[4];
            long a5 = lanes[5];
            long a6 = lanes[6];
            long a7 = lanes[7];
            long a8 = lanes[8];
            long a9 = lanes[9];
            long a10 = lanes[10];
            long a11 = lanes[11];
            long a12 = lanes[12];
            long a13 = lanes[13];
            long a14 = lanes[14];
            long a15 = lanes[15];
            long a16 = lanes[16];
            long a17 = lanes[17];
            long a18 = lanes[18];
            long a19 = lanes[19];
            long a20 = lanes[20];
            long a21 = lanes[21];
            long a22 = lanes[22];
            long a23 = lanes[23];
            long a24 = lanes[24];
            for (int round = 0; round < ROUNDS; round++) {
                // theta: the parity of each column goes into its neighbours
                long c0 = a0 ^ a5 ^ a10 ^ a15 ^ a20;
                long c1 = a1 ^ a6 ^ a11 ^ a16 ^ a21;
                long c2 = a2 ^ a7 ^ a12 ^ a17 ^ a22;
                long c3 = a3 ^ a8 ^ a13 ^ a18 ^ a23;
                long c4 = a4 ^ a9 ^ a14 ^ a19 ^ a24;
                long d0 = c4 ^ Long.rotateLeft(c1, 1);
                long d1 = c0 ^ Long.rotateLeft(c2, 1);
                long d2 = c1 ^ Long.rotateLeft(c3, 1);
                long d3 = c2 ^ Long.rotateLeft(c4, 1);
                long d4 = c3 ^ Long.rotateLeft(c0, 1);
                // rho and pi: lanes are rotated and change places
                long b0 = a0 ^ d0;
                long b1 = Long.rotateLeft(a6 ^ d1, 44);
                long b2 = Long.rotateLeft(a12 ^ d2, 43);
                long b3 = Long.rotateLeft(a18 ^ d3, 21);
                long b4 = Long.rotateLeft(a24 ^ d4, 14);
                long b5 = Long.rotateLeft(a3 ^ d3, 28);
                long b6 = Long.rotateLeft(a9 ^ d4, 20);
                long b7 = Long.rotateLeft(a10 ^ d0, 3);
                long b8 = Long.rotateLeft(a16 ^ d1, 45);
                long b9 = Long.rotateLeft(a22 ^ d2, 61);
                long b10 = Long.rotateLeft(a1 ^ d1, 1);
                long b11 = Long.rotateLeft(a7 ^ d2, 6);
                long b12 = Long.rotateLeft(a13 ^ d3, 25);
                long b13 = Long.rotateLeft(a19 ^ d4, 8);
                long b14 = Long.rotateLeft(a20 ^ d0, 18);
                long b15 = Long.rotateLeft(a4 ^ d4, 27);
                long b16 = Long.rotateLeft(a5 ^ d0, 36);
                long b17 = Long.rotateLeft(a11 ^ d1, 10);
                long b18 = Long.rotateLeft(a17 ^ d2, 15);
                long b19 = Long.rotateLeft(a23 ^ d3, 56);
                long b20 = Long.rotateLeft(a2 ^ d2, 62);
                long b21 = Long.rotateLeft(a8 ^ d3, 55);
                long b22 = Long.rotateLeft(a14 ^ d4, 39);
                long b23 = Long.rotateLeft(a15 ^ d0, 41);
                long b24 = Long.rotateLeft(a21 ^ d1, 2);
                // chi: each lane by the two beside it; iota: the constant of the round
                a0 = b0 ^ ~b1 & b2 ^ CONSTANTS[round];
                a1 = b1 ^ ~b2 & b3;
                a2 = b2 ^ ~b3 & b4;
                a3 = b3 ^ ~b4 & b0;
                a4 = b4 ^ ~b0 & b1;
                a5 = b5 ^ ~b6 & b7;
                a6 = b6 ^ ~b7 & b8;
                a7 = b7 ^ ~b8 & b9;
                a8 = b8 ^ ~b9 & b5;
                a9 = b9 ^ ~b5 & b6;
                a10 = b10 ^ ~b11 & b12;
                a11 = b11 ^ ~b12 & b13;
                a12 = b12 ^ ~b13 & b14;
                a13 = b13 ^ ~b14 & b10;
                a14 = b14 ^ ~b10 & b11;
                a15 = b15 ^ ~b16 & b17;
                a16 = b16 ^ ~b17 & b18;
                a17 = b17 ^ ~b18 & b19;
                a18 = b18 ^ ~b19 & b15;
                a19 = b19 ^ ~b15 & b16;
                a20 = b20 ^ ~b21 & b22;
                a21 = b21 ^ ~b22 & b23;
                a22 = b22 ^ ~b23 & b24;
                a23 = b23 ^ ~b24 & b20;
                a24 = b24 ^ ~b20 & b21;
            }
            lanes[0] = a0;
            lanes[1] = a1;
            lanes[2] = a2;
            lanes[3] = a3;
            lanes[4] = a4;
            lanes[5] = a5;
            lanes[6] = a6;
            lanes[7] = a7;
            lanes[8] = a8;
            lanes[9] = a9;
            lanes[10] = a10;
            lanes[11] = a11;
            lanes[12] = a12;
            lanes[13] = a13;
            lanes[14] = a14;
            lanes[15] = a15;
            lanes[16] = a16;
            lanes[17] = a17;
            lanes[18] = a18;
            lanes[19] = a19;
            lanes[20] = a20;
            lanes[21] = a21;
            lanes[22] = a22;
            lanes[23] = a23;
            lanes[24] = a24;
        }
    }
}
