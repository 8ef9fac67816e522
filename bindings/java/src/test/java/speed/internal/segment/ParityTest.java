package speed.internal.segment;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import speed.errors.PayloadTooLargeException;
import speed.errors.WireException;
import speed.internal.segment.Segment.PayloadKey;
import speed.internal.segment.Segment.Shape;
import speed.internal.wire.Limits;
import speed.options.SegmentLimits;

/** Any k of the k + m segments give the payload back (G-10, G-11); {@code -Dspeed.patterns=N} tries more of them. */
class ParityTest {
    private static final int PATTERNS = Integer.getInteger("speed.patterns", 30);

    private final long seed = Long.getLong("speed.seed", System.nanoTime());
    private final Random random = new Random(seed);

    private byte[] randomBytes(int size) {
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }

    private static List<Segment> cut(byte[] payload, int segmentSize, int parityCount) {
        int dataCount = Math.max(1, (payload.length + segmentSize - 1) / segmentSize);
        Shape shape = new Shape(payload.length, segmentSize, dataCount, parityCount);
        return StreamSupport.stream(Splitter.cut(Source.of(payload), shape).spliterator(), false)
                .toList();
    }

    private static void check(byte[] payload, List<Segment> held) {
        Assembler assembler = new Assembler();
        byte[] whole = null;
        for (Segment segment : held) {
            whole = assembler.receive("analytics", segment.write(), 0).payload();
        }
        assertArrayEquals(payload, whole);
    }

    /** G-3. */
    @Test
    void aHashThatIsKnownIsNotMadeAgain() {
        byte[] known = randomBytes(32);
        byte[] payload = randomBytes(1000);
        for (Segment segment : Splitter.cut(Source.of(payload), new Splitter(64).shape(payload.length), known)) {
            assertArrayEquals(known, segment.hash());
        }
    }

    @Test
    void everyPatternOfLossesOfSmallShapesIsRecovered() {
        for (int dataCount = 1; dataCount <= 5; dataCount++) {
            for (int parityCount = 1; parityCount <= 4; parityCount++) {
                byte[] payload = randomBytes(64 * dataCount - 7);
                List<Segment> segments = cut(payload, 64, parityCount);
                for (int pattern = 0; pattern < 1 << segments.size(); pattern++) {
                    if (Integer.bitCount(pattern) == dataCount) {
                        int held = pattern;
                        check(
                                payload,
                                IntStream.range(0, segments.size())
                                        .filter(slot -> (held >> slot & 1) == 1)
                                        .mapToObj(segments::get)
                                        .toList());
                    }
                }
            }
        }
    }

    @Test
    void randomLossesOfLargeShapesAreRecovered() {
        System.out.println("seed " + seed);
        for (int[] shape : new int[][] {{240, 15}, {200, 25}, {128, 127}, {226, 28}, {129, 126}, {60, 195}}) {
            byte[] payload = randomBytes(64 * shape[0] - random.nextInt(64));
            List<Segment> segments = cut(payload, 64, shape[1]);
            for (int round = 0; round < PATTERNS; round++) {
                List<Segment> some = new ArrayList<>(segments);
                Collections.shuffle(some, random);
                check(payload, some.subList(0, shape[0]));
            }
        }
    }

    /** G-9: slices of columns are seamless in both fields. */
    @Test
    void largeSegmentsAreRecoveredAsSmallOnes() {
        for (int[] shape : new int[][] {{9, 3}, {230, 20}}) {
            byte[] payload = randomBytes(70_016 * shape[0] - 1000);
            List<Segment> segments = cut(payload, 70_016, shape[1]);
            check(payload, segments.subList(shape[1], segments.size()));
        }
    }

    /** G-11. */
    @Test
    void theLengthOfALostLastSegmentIsFoundThoughItEndsInZeros() {
        for (int zeros : new int[] {0, 1, 63, 1000, 60_000}) {
            byte[] payload = Arrays.copyOf(randomBytes(2 * (1 << 16) + 200), 2 * (1 << 16) + 200 + zeros);
            List<Segment> segments = cut(payload, 1 << 16, 1);
            check(payload, List.of(segments.get(3), segments.get(0), segments.get(1)));
        }
    }

    /** G-11. */
    @Test
    void aLostLastSegmentThatEndsInAMillionZerosIsRecovered() {
        int size = 1 << 21;
        byte[] payload = Arrays.copyOf(randomBytes(size + 3), size + 3 + 1_000_000);
        List<Segment> segments = cut(payload, size, 1);
        check(payload, List.of(segments.get(0), segments.get(2)));
    }

    /** G-11: the work is bounded by the size of the payload, whatever the hash. */
    @Test
    void aLengthThatNoHashProvesIsGivenUpInBoundedTime() {
        List<Segment> zeros = cut(new byte[3 << 20], 1 << 20, 1);
        Segment first = zeros.get(0);
        Assembler assembler = new Assembler();
        byte[] wrong = new byte[Keccak.HASH_BYTES];
        for (int slot : new int[] {0, 1}) {
            Segment one = zeros.get(slot);
            assembler.receive("a", new Segment(wrong, 3, 1, one.index(), false, one.payload()).write(), 0);
        }
        byte[] parity = new Segment(wrong, 3, 1, 0, true, first.payload()).write();
        WireException refused = assertThrows(WireException.class, () -> assembler.receive("a", parity, 0));
        assertEquals("SEGMENT_HASH", refused.reason());
    }

    /** G-15: a flood of first segments is held to the limits. */
    @Test
    void aFloodOfFirstSegmentsKeepsNoMoreThanTheLimits() {
        Reassembly reassembly = new Reassembly(SegmentLimits.DEFAULT);
        byte[] payload = new byte[64];
        int held = 0;
        for (int n = 0; n < 100_000; n++) {
            byte[] hash = Arrays.copyOf(Integer.toString(n).getBytes(), Keccak.HASH_BYTES);
            PayloadKey key = new PayloadKey("sender" + n % 40, 1, hash);
            Reassembly.Admission admission =
                    reassembly.admit(key, new Segment(hash, 2, 0, 0, false, payload), n, Long.MAX_VALUE);
            held += 1 - admission.evicted().size();
            assertTrue(held <= Limits.MAX_RECONSTRUCTIONS);
        }
    }

    /** G-4, G-5: at most the rate of parity and 100 bytes a segment. */
    @Test
    void segmentsAddLittleToThePayload() {
        byte[] payload = randomBytes(1_000_000);
        long sent = 0;
        int count = 0;
        for (Segment segment : new Splitter(6400).split(payload)) {
            sent += segment.write().length;
            count++;
        }
        assertTrue(sent <= payload.length + 20 * 6400 + 60L * count, sent + " bytes in " + count);
    }

    /** G-5: never a part of what was asked for. */
    @Test
    void parityIsGivenWholeOrThePayloadIsRefused() {
        double[] rates = {0, 0.001, 0.125, 0.5, 1};
        int[][] counts = {{255, 0}, {254, 1}, {226, 29}, {170, 85}, {127, 127}};
        for (int n = 0; n < rates.length; n++) {
            Splitter splitter = new Splitter(64, rates[n]);
            long most = 64L * counts[n][0];
            assertEquals(most, splitter.mostBytes());
            assertEquals(counts[n][1], splitter.shape(most).parityCount());
            assertThrows(PayloadTooLargeException.class, () -> splitter.shape(most + 1));
        }
    }
}
