package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.columns.Column;
import speed.errors.UnserialisableException;
import speed.errors.WireException;

/** W-15 to W-17: values as msgpack. */
class ValuesTest {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private final Contract vectors = Contract.vectors("values");

    @TestFactory
    Stream<DynamicTest> aValueIsWrittenAsTheReferenceWritesIt() {
        return vectors.each(
                "valid", one -> assertArrayEquals(one.bytes("hex"), Values.encode(one.value("value"), "value")));
    }

    @TestFactory
    Stream<DynamicTest> aValueIsReadWithItsKind() {
        return vectors.each("valid", this::assertRead);
    }

    @TestFactory
    Stream<DynamicTest> otherSpellingsAreRead() {
        return vectors.each("also_read", this::assertRead);
    }

    private void assertRead(Contract one) {
        Object read = ValueReader.decode(one.bytes("hex"), "value");
        assertEquals(Contract.spelled(one.value("value")), Contract.spelled(read));
    }

    @TestFactory
    Stream<DynamicTest> brokenBytesAreRefused() {
        return vectors.each("invalid", one -> {
            WireException refused =
                    assertThrows(WireException.class, () -> ValueReader.decode(one.bytes("hex"), "value"));
            assertEquals("BAD_PAYLOAD", refused.reason());
        });
    }

    @Test
    void whatHasNoRepresentationIsNamedByItsPath() {
        Map<Object, Object> arguments = Map.of("x", List.of(1, 2, 3, new Object()));
        UnserialisableException error =
                assertThrows(UnserialisableException.class, () -> Values.encode(arguments, "arguments"));
        assertTrue(error.getMessage().startsWith("arguments.x[3] "), error.getMessage());
    }

    @Test
    void integersBeyond64BitsLoneSurrogatesAndOddKeysAreRefused() {
        BigInteger tooLarge = BigInteger.ONE.shiftLeft(64);
        for (Object bad : List.of(tooLarge, tooLarge.negate(), "\ud800", Map.of(true, 1), Map.of(1.5, 1), 'c')) {
            assertThrows(UnserialisableException.class, () -> Values.encode(bad, "value"), bad::toString);
        }
    }

    @Test
    void nestingIsBoundedOnBothSides() {
        Object deep = new ArrayList<>();
        for (int depth = 1; depth < Limits.MAX_VALUE_DEPTH; depth++) {
            deep = List.of(deep);
        }
        ValueReader.decode(Values.encode(deep, "value"), "value");
        Object tooDeep = List.of(deep);
        assertThrows(UnserialisableException.class, () -> Values.encode(tooDeep, "value"));
    }

    /** W-16: arrays inside each other that all claim what follows them. */
    @Test
    void lengthsThatTogetherExceedTheBytesAtHandReserveNoMemory() {
        for (String head : List.of("dd000ff000", "df0007f000a161")) {
            byte[] claims = HexFormat.of().parseHex(head.repeat(Limits.MAX_VALUE_DEPTH));
            byte[] data = Arrays.copyOf(claims, 1 << 20);
            long before = THREADS.getCurrentThreadAllocatedBytes();
            WireException refused = assertThrows(WireException.class, () -> ValueReader.decode(data, "value"));
            assertEquals("BAD_PAYLOAD", refused.reason());
            long allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
            assertTrue(allocated < 16L * data.length, head + " took " + allocated);
        }
    }

    /** W-16: each item has a byte of its own, so no value that is whole claims more. */
    @Test
    void aValueOfNothingButSmallestItemsIsRead() {
        Object value = Collections.nCopies(1000, null);
        for (int depth = 1; depth < Limits.MAX_VALUE_DEPTH; depth++) {
            value = depth % 2 == 0 ? List.of(value) : Map.of(0L, value);
        }
        assertEquals(value, ValueReader.decode(Values.encode(value, "value"), "value"));
    }

    @Test
    void timesBeforeAndFarAfter1970AreKept() {
        for (Instant time :
                List.of(Instant.EPOCH, Instant.ofEpochSecond(-1, 999_999_000), Instant.ofEpochSecond(1L << 35, 1000))) {
            assertEquals(time, ValueReader.decode(Values.encode(time, "value"), "value"));
        }
    }

    /** W-15: the shortest form changes at these sizes; above 16 KiB bytes are copied in a second pass. */
    @Test
    void partsOfEverySizeComeBack() {
        for (int size : List.of(0, 15, 16, 31, 32, 255, 256, 16_384, 16_385, 65_535, 65_536)) {
            Map<Object, Object> members = new LinkedHashMap<>();
            for (long member = 0; member < size; member++) {
                members.put(member, null);
            }
            Object value = List.of(
                    "x".repeat(size),
                    "\u00e9".repeat(size),
                    new byte[size],
                    Collections.nCopies(size, true),
                    members,
                    new byte[size]);
            Object read = ValueReader.decode(Values.encode(value, "value"), "value");
            assertEquals(Contract.spelled(value), Contract.spelled(read), "size " + size);
        }
    }

    @Test
    void integersAroundEachBoundaryComeBackInTheShortestForm() {
        for (int bits : List.of(5, 7, 8, 15, 16, 31, 32, 62)) {
            for (long near = -2; near <= 2; near++) {
                for (long number : new long[] {(1L << bits) + near, -(1L << bits) + near}) {
                    byte[] written = Values.encode(number, "value");
                    assertEquals(number, ValueReader.decode(written, "value"));
                    assertEquals(shortest(number), written.length, Long.toString(number));
                }
            }
        }
    }

    private static int shortest(long number) {
        if (number >= -32 && number < 128) {
            return 1;
        }
        int bits = number < 0 ? 65 - Long.numberOfLeadingZeros(~number) : 64 - Long.numberOfLeadingZeros(number);
        return 1 + Math.max(1, Integer.highestOneBit((bits + 7) / 8 * 2 - 1));
    }

    /** Garbage gives one named refusal or a value, and nothing else. */
    @Test
    void randomBytesAreReadOrRefused() {
        long seed = System.nanoTime();
        System.out.println("seed " + seed);
        Random random = new Random(seed);
        for (int round = 0; round < 20_000; round++) {
            byte[] garbage = new byte[random.nextInt(40)];
            random.nextBytes(garbage);
            try {
                ValueReader.decode(garbage, "value");
            } catch (WireException refused) {
                assertEquals("BAD_PAYLOAD", refused.reason());
            }
        }
    }

    /** W-15. */
    @Test
    void numbersOfEveryKindOfJavaAreWritten() {
        for (Number number : List.of((byte) 7, (short) 7, 7, 7L, BigInteger.valueOf(7))) {
            assertEquals(7L, ValueReader.decode(Values.encode(number, "value"), "value"));
        }
        assertEquals(1.5, ValueReader.decode(Values.encode(1.5f, "value"), "value"));
        BigInteger most = BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE);
        assertEquals(most, ValueReader.decode(Values.encode(most, "value"), "value"));
    }

    /** Columns and views of large bytes are copied once, behind what was written before them. */
    @Test
    void largeValuesStandWhereTheyWereAmongSmallOnes() {
        double[] rows = new double[5000];
        Arrays.setAll(rows, row -> row / 3.0);
        ByteBuffer bytes = ByteBuffer.allocate(100_000).putInt(50_000, 7).position(1);
        Map<String, Object> sent = new LinkedHashMap<>();
        sent.put("first", 1L);
        sent.put("column", Column.of(rows));
        sent.put("other", Column.of(rows));
        sent.put("between", List.of("text", Column.of(1.0)));
        sent.put("bytes", bytes.asReadOnlyBuffer());
        sent.put("last", "end");
        Map<Object, Object> read = ValueReader.decodeMap(Values.encode(sent, "value"), "value");
        assertEquals(List.copyOf(sent.keySet()), List.copyOf(read.keySet()));
        assertEquals(sent.get("column"), read.get("column"));
        assertEquals(sent.get("other"), read.get("other"));
        assertEquals(sent.get("between"), read.get("between"));
        assertArrayEquals(Arrays.copyOfRange(bytes.array(), 1, 100_000), (byte[]) read.get("bytes"));
        assertEquals("end", read.get("last"));
        assertEquals(99_999, bytes.remaining());
    }

    /** W-15: other languages have no years beyond. */
    @Test
    void instantsBeyondTheYears1To9999AreRefused() {
        for (Instant beyond : List.of(Instant.parse("0000-12-31T23:59:59Z"), Instant.parse("+10000-01-01T00:00:00Z"))) {
            assertThrows(UnserialisableException.class, () -> Values.encode(beyond, "value"));
        }
    }

    /** W-16: a small value may claim many items in few bytes; neither side makes or takes more than the limit. */
    @Test
    void moreItemsThanTheLimitAreRefusedOnBothSides() {
        byte[] tooMany = new byte[5 + Limits.MAX_VALUE_ITEMS + 1];
        ByteBuffer.wrap(tooMany).put((byte) 0xDD).putInt(Limits.MAX_VALUE_ITEMS + 1);
        Arrays.fill(tooMany, 5, tooMany.length, (byte) 0xC0);
        WireException refused = assertThrows(WireException.class, () -> ValueReader.decode(tooMany, "value"));
        assertEquals("BAD_PAYLOAD", refused.reason());
        UnserialisableException named = assertThrows(
                UnserialisableException.class,
                () -> Values.encode(Map.of("x", Collections.nCopies(Limits.MAX_VALUE_ITEMS, null)), "arguments"));
        assertTrue(named.getMessage().startsWith("arguments.x has too many items"), named.getMessage());
    }
}
