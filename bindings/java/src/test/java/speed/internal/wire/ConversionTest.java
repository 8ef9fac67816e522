package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.Int64Value;
import com.google.protobuf.StringValue;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DayOfWeek;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.ConfigurationException;
import speed.errors.UnserialisableException;
import speed.internal.wire.Conversion.Mismatch;
import speed.values.Member;

/** V-1, V-2: values of Java's types, written and read. */
class ConversionTest {
    private static final BigInteger TWO_63 = BigInteger.ONE.shiftLeft(63);
    private static final UUID ID = UUID.fromString("0f8fad5b-d9cb-469f-a165-70867728950e");

    private record Item(String article, int pieces) {}

    private record Order(
            UUID id, List<Item> items, Optional<LocalDate> due, Map<DayOfWeek, Double> prices, long... sizes) {}

    private record Picky(int count) {
        Picky {
            if (count < 1) {
                throw new IllegalArgumentException("count");
            }
        }
    }

    private record Case(Object given, Object form, Class<?> type) {
        Case(Object given, Object form) {
            this(given, form, given.getClass());
        }
    }

    private static Object travelled(Object value) {
        return ValueReader.decode(Values.encode(value, "value"), "value");
    }

    private static String refusal(Class<?> type, Object value) {
        return assertThrows(Mismatch.class, () -> Conversion.to(type, value, "value"))
                .getMessage();
    }

    @TestFactory
    Stream<DynamicTest> aValueTravelsInItsFormAndComesBack() {
        return Stream.of(
                        new Case(ID, "0f8fad5b-d9cb-469f-a165-70867728950e"),
                        new Case(LocalDate.of(1, 2, 3), "0001-02-03"),
                        new Case(LocalTime.of(23, 59), "23:59:00"),
                        new Case(LocalTime.of(23, 59, 59, 1_000), "23:59:59.000001"),
                        new Case(LocalDateTime.of(2026, 11, 25, 23, 59, 59), "2026-11-25T23:59:59"),
                        new Case(Duration.ofNanos(-1_000), -1L),
                        new Case(Duration.ofDays(100_000), 8_640_000_000_000_000L),
                        new Case(new BigDecimal("-12.50"), "-12.50"),
                        new Case(new BigDecimal("1000"), "1000"),
                        new Case(DayOfWeek.MONDAY, "MONDAY"),
                        new Case(new Item("tea", 2), Map.of("article", "tea", "pieces", 2L)),
                        new Case(Set.of(7L), List.of(7L), Set.class),
                        new Case(Optional.empty(), null, Optional.class),
                        new Case(Optional.of(1.5), 1.5, Optional.class),
                        new Case(List.of("a"), List.of("a"), List.class),
                        new Case(Map.of("a", 1L), Map.of("a", 1L), Map.class),
                        new Case(Instant.EPOCH, Instant.EPOCH),
                        new Case((byte) 7, 7L),
                        new Case((short) 7, 7L),
                        new Case(7, 7L),
                        new Case(BigInteger.TWO, 2L),
                        new Case(1.5f, 1.5))
                .map(one -> DynamicTest.dynamicTest(one.toString(), () -> {
                    Object travelled = travelled(one.given);
                    assertEquals(one.form, travelled);
                    assertEquals(one.given, Conversion.to(one.type, travelled, "value"));
                }));
    }

    @Test
    void arraysAreLists() {
        assertArrayEquals(new int[] {1, 2}, Conversion.to(int[].class, travelled(new int[] {1, 2}), "value"));
        assertArrayEquals(new UUID[] {ID}, Conversion.to(UUID[].class, travelled(new UUID[] {ID}), "value"));
        assertArrayEquals(
                new double[][] {{1.5}, {}},
                Conversion.to(double[][].class, travelled(new double[][] {{1.5}, {}}), "value"));
        assertArrayEquals(new byte[] {1}, Conversion.to(byte[].class, travelled(new byte[] {1}), "value"));
    }

    @Test
    void recordsTravelWithAllThatTheyHold() {
        Map<DayOfWeek, Double> prices = new EnumMap<>(Map.of(DayOfWeek.MONDAY, 2.5));
        Order order = new Order(ID, List.of(new Item("tea", 2)), Optional.of(LocalDate.EPOCH), prices, 1, 2);
        Order back = Conversion.to(Order.class, travelled(order), "value");
        assertEquals(List.of(new Item("tea", 2)), back.items);
        assertEquals(Optional.of(LocalDate.EPOCH), back.due);
        assertEquals(prices, back.prices);
        assertArrayEquals(new long[] {1, 2}, back.sizes);
    }

    @Test
    void aMemberMayBeMissingWhereItsTypeSaysSoAndOthersAreIgnored() {
        Map<String, Object> given = new LinkedHashMap<>(
                Map.of("id", ID.toString(), "items", List.of(), "prices", Map.of(), "sizes", List.of(), "other", 1L));
        assertEquals(Optional.empty(), Conversion.to(Order.class, given, "value").due);
        given.put("due", null);
        assertEquals(Optional.empty(), Conversion.to(Order.class, given, "value").due);
        given.remove("id");
        assertEquals("value.id is missing: it must be UUID", refusal(Order.class, given));
        given.put("id", null);
        assertEquals("value.id must be UUID, not null", refusal(Order.class, given));
    }

    @Test
    void whatDoesNotFitIsNamedByItsPlaceAndNotByWhatItIs() {
        Map<String, Object> item = new LinkedHashMap<>(Map.of("article", "tea", "pieces", 3_000_000_000L));
        Map<String, Object> given = new LinkedHashMap<>(Map.of("id", ID.toString(), "items", List.of(item)));
        assertEquals(
                "value.items[0].pieces must be int, not a number beyond its range",
                refusal(Order.class, given).replace("Integer", "int"));
        assertEquals(
                "value must be Picky, not what its constructor refuses (IllegalArgumentException)",
                refusal(Picky.class, Map.of("count", 0L)));
        assertEquals("value[1] must be String, not Long", refusal(String[].class, List.of("a", 7L)));
        assertEquals("value must be Item, not String", refusal(Item.class, "tea"));
    }

    @Test
    void aWholeNumberFitsOrIsRefused() {
        assertEquals(-128, (int) Conversion.to(byte.class, -128L, "value"));
        assertEquals(Integer.MAX_VALUE, Conversion.to(Integer.class, (long) Integer.MAX_VALUE, "value"));
        assertEquals(TWO_63, Conversion.to(BigInteger.class, TWO_63, "value"));
        for (Class<?> type : List.of(byte.class, Short.class, int.class, Integer.class)) {
            assertTrue(refusal(type, 1L << 31).endsWith("not a number beyond its range"));
        }
        assertEquals("value must be Long, not a number beyond its range", refusal(long.class, TWO_63));
        assertEquals("value must be Integer, not Double", refusal(Integer.class, 1.0));
        assertEquals("value must be Integer, not Boolean", refusal(Integer.class, true));
    }

    @Test
    void aFloatLosesNoDigitOfAWholeNumber() {
        long odd = (1L << 53) + 1;
        assertEquals("value must be Double, not a whole number that would lose digits", refusal(Double.class, odd));
        assertEquals(
                "value must be Double, not a whole number that would lose digits",
                refusal(double.class, Long.MAX_VALUE));
        assertEquals(
                "value must be Double, not a whole number that would lose digits",
                refusal(Double.class, TWO_63.add(BigInteger.ONE)));
        assertEquals(0x1p63, Conversion.to(Double.class, TWO_63, "value"));
        assertEquals(-0x1p63, Conversion.to(double.class, Long.MIN_VALUE, "value"));
        assertEquals(0x1p53 + 2, Conversion.to(Double.class, odd + 1, "value"));
        assertEquals(0.0, Conversion.to(Double.class, 0L, "value"));
        assertEquals(
                "value must be Float, not a whole number that would lose digits", refusal(Float.class, (1L << 24) + 1));
        assertEquals(0.1f, Conversion.to(float.class, 0.1, "value"));
        assertEquals(Float.NaN, Conversion.to(Float.class, Double.NaN, "value"));
        assertEquals("value must be Float, not a number beyond its range", refusal(Float.class, 1e300));
        assertEquals("value must be Double, not BigDecimal", refusal(Double.class, new BigDecimal("1.5")));
    }

    @TestFactory
    Stream<DynamicTest> aTextOfAnotherFormIsRefused() {
        Map<Class<?>, List<String>> odd = Map.of(
                UUID.class, List.of("1-1-1-1-1", ID.toString().toUpperCase(java.util.Locale.ROOT), ""),
                LocalDate.class, List.of("+12026-01-01", "0000-01-01", "2026-02-30", "2026-1-1", "26-11-25"),
                LocalTime.class, List.of("23:59", "24:00:00", "23:59:59.0000001", "23:59:59Z"),
                LocalDateTime.class, List.of("2026-11-25 23:59:59", "2026-11-25T23:59:59Z"),
                BigDecimal.class, List.of("1e3", "+1", ".5", "1.", "NaN", "1".repeat(1001), "\u0661"),
                DayOfWeek.class, List.of("monday", "", "8"));
        return odd.entrySet().stream()
                .flatMap(one -> one.getValue().stream()
                        .map(text -> DynamicTest.dynamicTest(
                                one.getKey().getSimpleName() + " " + text,
                                () -> assertEquals(
                                        "value must be " + one.getKey().getSimpleName() + ", not text of another form",
                                        refusal(one.getKey(), text)))));
    }

    @Test
    void noKindTurnsIntoAnother() {
        assertEquals("value must be BigDecimal, not Long", refusal(BigDecimal.class, 5L));
        assertEquals("value must be Duration, not Double", refusal(Duration.class, 5.0));
        assertEquals("value must be String, not Long", refusal(String.class, 5L));
        assertEquals("value must be Boolean, not Long", refusal(boolean.class, 1L));
        assertEquals("value must be Set, not List with an item twice", refusal(Set.class, List.of(1L, 1L)));
        assertEquals("value must be Map, not List", refusal(Map.class, List.of()));
        assertEquals("value must be UUID, not null", refusal(UUID.class, null));
        assertSame(ID, Conversion.to(Object.class, ID, "value"));
    }

    @Test
    void whatIsFinerThanAMicrosecondIsRoundedDown() {
        assertEquals("23:59:59.999999", travelled(LocalTime.MAX));
        assertEquals(-1L, travelled(Duration.ofNanos(-1)));
        assertEquals(0L, travelled(Duration.ofNanos(999)));
    }

    @Test
    void whatOthersCouldNotReadIsRefused() {
        Object endless = new Object[1];
        ((Object[]) endless)[0] = endless;
        for (Object beyond : Arrays.asList(
                LocalDate.of(10_000, 1, 1),
                LocalDateTime.MIN,
                Duration.ofSeconds(Long.MAX_VALUE),
                new BigDecimal("1e2000"),
                new BigDecimal("1e-2000"),
                new BigDecimal("1e2000000000"),
                new char[1],
                endless,
                Collections.singletonMap(null, 1))) {
            assertThrows(UnserialisableException.class, () -> Values.encode(beyond, "value"));
        }
    }

    @Test
    void aProtobufMessageIsTakenAsItsType() {
        Any received = Any.pack(StringValue.of("tea"));
        assertEquals(StringValue.of("tea"), Conversion.to(StringValue.class, received, "value"));
        assertSame(received, Conversion.to(Any.class, received, "value"));
        assertEquals("value must be Int64Value, not Any", refusal(Int64Value.class, received));
        assertEquals("value must be StringValue, not String", refusal(StringValue.class, "tea"));
    }

    @Test
    void aTypeThatSomeValuesHaveIsNotThatOfOthers() {
        assertEquals(7L, Conversion.to(Number.class, 7L, "value"));
        assertEquals("value must be Number, not String", refusal(Number.class, "tea"));
        assertEquals("value must be LinkedHashMap, not List", refusal(LinkedHashMap.class, List.of()));
    }

    @Test
    void aSetKeepsItsOrder() {
        assertEquals(List.of("b", "a"), travelled(new LinkedHashSet<>(List.of("b", "a"))));
    }

    @Test
    void aTypeThatNoValueIsTakenAsIsTheProgramsMistake() {
        assertEquals(
                "no value is taken as java.lang.Thread",
                assertThrows(ConfigurationException.class, () -> Conversion.to(Thread.class, "x", "value"))
                        .getMessage());
    }

    private record Seat(
            @Member(name = "class") String category,
            @Member(leftOut = true) Optional<String> note,
            Optional<Long> row) {}

    @Test
    void componentsOfRecordsHaveOtherKeysAndAreLeftOutWhereTheySaySo() {
        Seat seat = new Seat("first", Optional.empty(), Optional.empty());
        assertEquals(Set.of("class", "row"), ((Map<?, ?>) Plain.of(seat, "seat")).keySet());
        Seat whole = new Seat("second", Optional.of("quiet"), Optional.of(4L));
        Map<String, Object> members = Map.of("class", "second", "note", "quiet", "row", 4L);
        assertEquals(whole, Conversion.as(members, Seat.class, "BAD_PAYLOAD", "the value"));
        assertEquals(seat, Conversion.as(Map.of("class", "first"), Seat.class, "BAD_PAYLOAD", "the value"));
        assertTrue(TypeSchema.of(Seat.class).toString().contains("required=[class]"));
    }
}
