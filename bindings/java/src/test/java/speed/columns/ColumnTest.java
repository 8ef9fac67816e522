package speed.columns;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.internal.wire.Contract;
import speed.internal.wire.Limits;
import speed.internal.wire.ValueReader;
import speed.internal.wire.Values;

/** C-1 to C-5, C-9: columns as values. */
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
                    if (list.equals("valid")) {
                        assertEquals(one.text("type"), column.typeName());
                    }
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

    @TestFactory
    Stream<DynamicTest> aColumnIsReadWhereItLies() {
        return vectors.each("valid", one -> {
            Column column = (Column) ValueReader.decode(one.bytes("hex"), "value");
            byte[] among = new byte[column.body().remaining() + 8];
            Arrays.fill(among, (byte) 0xff);
            ByteBuffer place = ByteBuffer.wrap(among, 3, among.length - 8);
            place.slice().put(column.body());
            for (ByteBuffer body : List.of(place, place.slice(), place.asReadOnlyBuffer())) {
                Column read = Column.parse(body);
                assertEquals(column, read);
                assertEquals(Contract.spelled(column.values()), Contract.spelled(read.values()));
                assertArrayEquals(one.bytes("hex"), Values.encode(read, "value"));
            }
            assertThrows(WireException.class, () -> Column.parse(ByteBuffer.wrap(among, 3, among.length - 7)));
        });
    }

    @Test
    void aLargeColumnIsReadInThePayloadThatItCameIn() {
        double[] rows = new double[10_000];
        Arrays.setAll(rows, row -> row / 2.0);
        List<String> texts = Arrays.stream(rows).mapToObj(row -> "grün " + row).toList();
        Map<String, Object> sent = Map.of("a", Column.of(rows), "b", 1L, "c", Column.of(texts));
        assertEquals(sent, ValueReader.decode(Values.encode(sent, "value"), "value"));
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

    /** C-9. */
    @Test
    void columnsInColumnsAreMadeOfColumns() {
        Column lists = Column.lists(Arrays.asList(2, null, 0), Column.of(1, 2));
        assertEquals(Column.of(Arrays.asList(List.of(1L, 2L), null, List.of())), lists);
        assertEquals(2, lists.offset(1));
        Column maps = Column.maps(List.of(1), Column.of(List.of("a")), Column.of(1.5));
        assertEquals(List.of(Map.of("a", 1.5)), maps.values());
        Column structs = Column.structs(Map.of("l", lists), List.of(true, false, true));
        assertEquals("struct<l: list<int64>>", structs.typeName());
        assertEquals(lists, structs.children().get(0));
        assertEquals(List.of("l"), structs.names());
        assertNull(structs.get(1));
        assertThrows(IllegalArgumentException.class, () -> Column.lists(List.of(1), Column.of(1, 2)));
        assertThrows(IllegalArgumentException.class, () -> Column.lists(List.of(3), Column.of(1, 2)));
        assertThrows(IllegalArgumentException.class, () -> Column.maps(List.of(1), lists, Column.of(1.5)));
        assertThrows(IllegalArgumentException.class, () -> Column.structs(Map.of(), List.of()));
        assertThrows(IllegalArgumentException.class, () -> Column.structs(Map.of("l", lists), List.of()));
    }

    /** C-9. */
    @Test
    void aColumnIn32OthersIsRefusedWhereItIsMade() {
        Column column = Column.of(1L);
        for (int depth = 1; depth < Limits.MAX_COLUMN_DEPTH; depth++) {
            column = Column.lists(List.of(column.rows()), column);
        }
        Column last = column;
        assertThrows(UnserialisableException.class, () -> Column.lists(List.of(1), last));
        Object value = 1L;
        for (int depth = 1; depth < Limits.MAX_COLUMN_DEPTH; depth++) {
            value = List.of(value);
        }
        Object deepest = value;
        assertEquals(List.of(deepest), Column.of(List.of(deepest)).values());
        assertThrows(UnserialisableException.class, () -> Column.of(List.of(List.of(deepest))));
    }

    /** C-9: before any of them is read. */
    @Test
    void aStructOfMoreFieldsThanAColumnHasInsideIsRefused() {
        List<String> names = Stream.iterate(0, number -> number + 1)
                .limit(65_537)
                .map(String::valueOf)
                .toList();
        ByteBuffer body = Column.of(Kind.UTF8, names).body();
        byte[] struct = new byte[8 + body.remaining()];
        struct[0] = (byte) Kind.STRUCT.number();
        body.get(struct, 8, body.remaining());
        WireException error = assertThrows(WireException.class, () -> Column.parse(struct));
        assertEquals("BAD_PAYLOAD: a column has structs without names of fields, or with too many", error.getMessage());
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
        UnserialisableException nested = assertThrows(
                UnserialisableException.class, () -> Column.of(Arrays.asList(List.of(1L), null, List.of(2L, "b"))));
        assertEquals("row 2 holds what does not fit into a column of INT64", nested.getMessage());
        assertThrows(UnserialisableException.class, () -> Column.of(Kind.MONTHS, List.of(1L << 31)));
        assertThrows(UnserialisableException.class, () -> Column.of(List.of(new Object())));
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
