package speed.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.UnserialisableException;
import speed.errors.WireException;

/** W-15 to W-17: values as msgpack. */
class ValuesTest {
    private final Contract vectors = Contract.vectors("values");

    @TestFactory
    Stream<DynamicTest> aValueIsWrittenAsTheReferenceWritesIt() {
        return vectors.each("valid", one ->
                assertArrayEquals(one.bytes("hex"), Values.encode(one.value("value"), "value")));
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

    @Test
    void timesBeforeAndFarAfter1970AreKept() {
        for (Instant time : List.of(Instant.EPOCH, Instant.ofEpochSecond(-1, 999_999_000),
                Instant.ofEpochSecond(1L << 35, 1000))) {
            assertEquals(time, ValueReader.decode(Values.encode(time, "value"), "value"));
        }
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
}
