package speed.columns;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.internal.wire.Contract;
import speed.internal.wire.ValueReader;
import speed.internal.wire.Values;

/** C-1 to C-5: columns as values. */
class ColumnTest {
    private final Contract vectors = Contract.vectors("columns");

    @TestFactory
    Stream<DynamicTest> aColumnIsReadAsPublished() {
        return Stream.of("valid", "also_read")
                .flatMap(list -> vectors.each(list, one -> {
                    Column column = (Column) ValueReader.decode(one.bytes("hex"), "value");
                    assertEquals(one.text("kind"), column.kind().name().toLowerCase(Locale.ROOT));
                    assertEquals(one.number("precision"), column.precision());
                    assertEquals(one.number("scale"), column.scale());
                    assertEquals(Contract.spelled(one.value("rows")), Contract.spelled(column.values()));
                    assertArrayEquals(one.bytes("hex"), Values.encode(column, "value"));
                }));
    }

    @TestFactory
    Stream<DynamicTest> aColumnIsWrittenAsPublished() {
        return vectors.each("valid", one -> {
            Kind kind = Kind.valueOf(one.text("kind").toUpperCase(Locale.ROOT));
            @SuppressWarnings("unchecked")
            List<BigDecimal> rows = (List<BigDecimal>) one.value("rows");
            Column column = kind == Kind.DECIMAL
                    ? Column.decimals((int) one.number("precision"), (int) one.number("scale"), rows)
                    : Column.of(kind, rows);
            assertArrayEquals(one.bytes("hex"), Values.encode(column, "value"));
        });
    }

    @Test
    void textIsCheckedBehindABeginningOfAscii() {
        Column column = Column.of(Kind.UTF8, List.of("in ASCII for sixteen bytes and more", "grüße"));
        byte[] body = new byte[column.body().remaining()];
        column.body().get(body);
        assertEquals(column, Column.parse(body.clone()));
        for (int at = body.length - 1; at > 0; at--) {
            if (body[at] == (byte) 0xc3) { // of ü or ß
                body[at] = (byte) 0xff;
                assertThrows(WireException.class, () -> Column.parse(body));
                return;
            }
        }
    }

    @TestFactory
    Stream<DynamicTest> bytesThatAreNoColumnAreRefused() {
        return vectors.each("invalid", one -> {
            WireException refused =
                    assertThrows(WireException.class, () -> ValueReader.decode(one.bytes("hex"), "value"));
            assertEquals("BAD_PAYLOAD", refused.reason());
        });
    }

    @Test
    void numbersAreReadWhereTheyLie() {
        assertEquals(2.5, Column.of(1.0, 2.5).doubles().get(1));
        assertEquals(-7, Column.of(3, -7).longs().get(1));
        assertEquals(
                1,
                Column.of(Kind.TIMESTAMP, List.of(Instant.EPOCH.plusNanos(1_000)))
                        .longs()
                        .get(0));
    }

    /** V-4: before 1970 as well. */
    @Test
    void aMomentFinerThanAMicrosecondIsRoundedDown() {
        Instant last = Instant.parse("1969-12-31T23:59:59.999999999Z");
        Column column = Column.of(Kind.TIMESTAMP, List.of(last, last.plusNanos(2), Instant.ofEpochSecond(-1, 1)));
        assertEquals(List.of(last.minusNanos(999), Instant.EPOCH, Instant.ofEpochSecond(-1)), column.values());
        assertEquals(-1, column.longs().get(0));
    }

    @Test
    void theFirstAndLastMomentOfAColumnComeBack() {
        List<Instant> ends = Stream.of(Long.MIN_VALUE, Long.MAX_VALUE)
                .map(microseconds -> Instant.EPOCH.plus(microseconds, ChronoUnit.MICROS))
                .toList();
        assertEquals(ends, Column.of(Kind.TIMESTAMP, ends).values());
        assertThrows(
                UnserialisableException.class,
                () -> Column.of(Kind.TIMESTAMP, List.of(ends.get(0).minusNanos(1))));
        assertThrows(UnserialisableException.class, () -> Column.of(Kind.TIMESTAMP, List.of(Instant.MAX)));
    }

    @Test
    void aNullRowIsNull() {
        Column column = Column.of(Kind.UTF8, Arrays.asList("a", null));
        assertNull(column.get(1));
        assertEquals("Column[UTF8, rows=2]", column.toString());
    }

    @Test
    void anotherKindThanRequestedIsNamed() {
        WrongKindException error =
                assertThrows(WrongKindException.class, () -> Column.of(1L).doubles());
        assertEquals("BAD_PAYLOAD: a column is of INT64, not FLOAT64", error.getMessage());
    }

    @Test
    void aRowThatDoesNotFitIsNamed() {
        for (List<?> rows : List.of(List.of("a", 1L), List.of("a", "\ud800"))) {
            UnserialisableException error =
                    assertThrows(UnserialisableException.class, () -> Column.of(Kind.UTF8, rows));
            assertEquals("row 1 does not fit into a column of UTF8", error.getMessage());
        }
        assertThrows(UnserialisableException.class, () -> Column.decimals(4, 2, List.of(new BigDecimal("1.001"))));
        assertThrows(UnserialisableException.class, () -> Column.decimals(4, 2, List.of(new BigDecimal("100.00"))));
    }

    /** C-2: a column is its bytes. */
    @Test
    void columnsOfTheSameBytesAreEqual() {
        Column one = Column.of(1L, 2L);
        assertEquals(Column.of(1L, 2L), one);
        assertEquals(Column.of(1L, 2L).hashCode(), one.hashCode());
        assertNotEquals(Column.of(1L, 3L), one);
        assertNotEquals(one, "a column");
    }
}
