package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import org.junit.jupiter.api.Test;
import speed.columns.Column;
import speed.columns.Kind;
import speed.errors.ApplicationException;
import speed.errors.CallException;
import speed.errors.CallTimeoutException;
import speed.errors.ConfigurationException;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;

/** C-6 to C-8: services that are called with columns, and answer row by row. */
class RowServiceTest {
    private static final BigInteger TWO_63 = BigInteger.ONE.shiftLeft(63);

    private record Tax(BigDecimal amount, Optional<String> note) {}

    private final Service twice = Service.byRow(request -> {
        if (request.arguments().get("a") == null) {
            return null;
        }
        double a = request.get("a", Double.class);
        if (a < 0) {
            throw new IllegalStateException("negative");
        }
        return 2 * a;
    });

    private static Request request(Map<String, Object> arguments) {
        return new Request("twice", arguments, "etl", "1.1", 0, null);
    }

    private static Request rows(int count) {
        return request(Map.of("row", Column.of(new long[count])));
    }

    /** What a service answers that gives these answers, one a row; it throws those that can be thrown. */
    private static Object answered(Object... answers) throws Exception {
        List<Object> left = new ArrayList<>(Arrays.asList(answers));
        return Service.byRow(request -> {
                    Object next = left.remove(0);
                    if (next instanceof Error error) {
                        throw error;
                    } else if (next instanceof Exception failure) {
                        throw failure;
                    }
                    return next;
                })
                .invoke(rows(answers.length));
    }

    private static CallException refusal(Object... answers) {
        return assertThrows(CallException.class, () -> answered(answers));
    }

    private static List<Object> values(Object column, Kind kind) {
        assertEquals(kind, ((Column) column).kind());
        return ((Column) column).values();
    }

    @Test
    void aServiceOfRowsAnswersABatchWithAColumnAndASingleCallAsBefore() throws Exception {
        Column column = Column.of(Kind.FLOAT64, Arrays.asList(1.5, null));
        Column doubled = (Column) twice.invoke(request(Map.of("a", column)));
        assertEquals(Arrays.asList(3.0, null), doubled.values());
        assertEquals(8.0, twice.invoke(request(Map.of("a", 4.0))));
    }

    @Test
    void columnsOfDifferentLengthsAreRefused() {
        Request request = request(Map.of("a", Column.of(1.0), "b", Column.of(1.0, 2.0)));
        assertThrows(InvalidArgumentsException.class, request::columns);
    }

    @Test
    void theKindOfAColumnIsThatOfItsFirstValue() throws Exception {
        assertEquals(
                Arrays.asList(1L, null, 3L, 4L, 5L), values(answered(1, null, 3L, (short) 4, (byte) 5), Kind.INT64));
        assertEquals(List.of(1.5, 2.0, 0x1p63), values(answered(1.5f, 2L, TWO_63), Kind.FLOAT64));
        assertEquals(List.of(true), values(answered(true), Kind.BOOL));
        assertEquals(List.of(Instant.EPOCH), values(answered(Instant.EPOCH), Kind.TIMESTAMP));
        assertEquals(Arrays.asList(null, null), values(answered(null, null), Kind.FLOAT64));
        assertEquals(
                List.of("00000000-0000-0000-0000-000000000001", "t"), values(answered(new UUID(0, 1), "t"), Kind.UTF8));
    }

    @Test
    void decimalsMakeAColumnOf18FractionDigits() throws Exception {
        Column column = (Column) answered(new BigDecimal("1.25"), null, 3);
        assertEquals(List.of(38, 18), List.of(column.precision(), column.scale()));
        assertEquals(new BigDecimal("1.25"), ((BigDecimal) column.get(0)).stripTrailingZeros());
        assertEquals(new BigDecimal("3"), ((BigDecimal) column.get(2)).stripTrailingZeros());
    }

    @Test
    void decimalsThatDoNotFitIntoThatHaveTheScaleOfTheirDigits() throws Exception {
        Column fine = (Column) answered(BigDecimal.ONE, new BigDecimal("1e-19"));
        assertEquals(List.of(38, 19), List.of(fine.precision(), fine.scale()));
        Column large = (Column) answered(new BigDecimal("1e37"), new BigDecimal("1.00"));
        assertEquals(List.of(38, 0), List.of(large.precision(), large.scale()));
        assertEquals(
                1L, refusal(BigDecimal.ONE, new BigDecimal("1e38")).details().get("row"));
        assertEquals(
                0L,
                refusal(new BigDecimal("1e20"), new BigDecimal("1e-19"))
                        .details()
                        .get("row"));
    }

    @Test
    void mapsMakeAColumnForEachKeyInTheOrderInWhichTheyAreMet() throws Exception {
        Map<String, Object> first = new LinkedHashMap<>();
        first.put("b", 1);
        first.put("a", null);
        Map<?, ?> columns = (Map<?, ?>) answered(null, first, Map.of("c", "t", "a", 2.5));
        assertEquals(List.of("b", "a", "c"), List.copyOf(columns.keySet()));
        assertEquals(Arrays.asList(null, 1L, null), values(columns.get("b"), Kind.INT64));
        assertEquals(Arrays.asList(null, null, 2.5), values(columns.get("a"), Kind.FLOAT64));
        assertEquals(Arrays.asList(null, null, "t"), values(columns.get("c"), Kind.UTF8));
    }

    @Test
    void recordsMakeAColumnForEachComponent() throws Exception {
        Map<?, ?> columns = (Map<?, ?>)
                answered(new Tax(BigDecimal.ONE, Optional.empty()), new Tax(BigDecimal.TEN, Optional.of("high")));
        assertEquals(Kind.DECIMAL, ((Column) columns.get("amount")).kind());
        assertEquals(Arrays.asList(null, "high"), values(columns.get("note"), Kind.UTF8));
    }

    @Test
    void theFirstRowIsNamedWhoseAnswerDoesNotFit() {
        for (Object misfit : Arrays.asList(2.5, TWO_63, "t", true, new BigDecimal("2"), Map.of("a", 1), List.of(1))) {
            CallException error = refusal(1, null, misfit, misfit);
            assertEquals("EXECUTION_FAILED", error.code(), misfit::toString);
            assertEquals(2L, error.details().get("row"));
            assertTrue(error.getMessage().startsWith("row 2: the result is "), error.getMessage());
        }
        assertEquals(1L, refusal(1.5, (1L << 53) + 1).details().get("row"));
        assertEquals(1L, refusal("a", "\ud800").details().get("row"));
        assertEquals(1L, refusal(Instant.EPOCH, Instant.MAX).details().get("row"));
        assertEquals(2L, refusal(null, List.of(1), 2).details().get("row"));
        assertEquals(1L, refusal(Map.of("a", 1), 7).details().get("row"));
        assertEquals(1L, refusal(Map.of("a", 1), Map.of(7, 1)).details().get("row"));
        assertEquals(1L, refusal(Map.of("a", 1), Map.of("a", "t")).details().get("row"));
        assertEquals(
                "row 1: the result is Thread, of which there is no column",
                refusal(null, new Thread()).getMessage());
    }

    @Test
    void theFirstRowIsNamedThatThrewWhateverItThrew() {
        CallException failed = refusal(1, new IllegalStateException("negative"), new IllegalStateException("later"));
        assertInstanceOf(ExecutionFailedException.class, failed);
        assertEquals("row 1: IllegalStateException: negative", failed.getMessage());
        assertEquals(Map.of("row", 1L, "exception", "IllegalStateException"), failed.details());
        for (Throwable thrown : List.of(
                new AssertionError("wrong"),
                new StackOverflowError(),
                new Exception(),
                new NoClassDefFoundError(),
                new CancellationException(),
                new InterruptedException())) {
            CallException named = refusal(1, thrown);
            assertEquals("EXECUTION_FAILED", named.code());
            assertEquals(1L, named.details().get("row"));
            assertSame(thrown, named.getCause());
        }
    }

    @Test
    void whatARowSaysKeepsItsCodeAndDetails() {
        Map<String, Object> details = Map.of("why", "asked");
        for (Object declared : List.of(
                new InvalidArgumentsException("no", details), Response.error("INVALID_ARGUMENTS", "no", details))) {
            CallException error = refusal(1, declared);
            assertEquals(List.of("INVALID_ARGUMENTS", "row 1: no"), List.of(error.code(), error.getMessage()));
            assertEquals(Map.of("why", "asked", "row", 1L), error.details());
        }
        for (Object declared :
                List.of(new ApplicationException("SOLD", "no", details), Response.error("SOLD", "no", details))) {
            CallException error = refusal(1, declared);
            assertEquals(List.of("SOLD", "row 1: no"), List.of(error.code(), error.getMessage()));
            assertInstanceOf(ApplicationException.class, error);
        }
        for (String code : List.of("TIMEOUT", "LEAVING", "EXECUTION_FAILED", "no code", "")) {
            assertEquals(
                    "EXECUTION_FAILED",
                    refusal(1, Response.error(code, null, null)).code());
        }
    }

    @Test
    void whatACallOfTheRowEndedWithIsNotTheCallersFault() {
        InvalidArgumentsException nested = new InvalidArgumentsException("no");
        nested.about("shop", "order");
        CallException error = refusal(1, nested);
        assertEquals("EXECUTION_FAILED", error.code());
        assertEquals(
                Map.of("cause", "INVALID_ARGUMENTS", "node", "shop", "service", "order", "row", 1L), error.details());
        assertEquals(
                "TIMEOUT", refusal(new CallTimeoutException("late")).details().get("cause"));
    }

    @Test
    void theCancellationOfTheCallBlamesNoRow() {
        Request request = rows(1);
        request.cancellation().raise();
        Service stopped = Service.byRow(row -> {
            throw new CancellationException();
        });
        assertThrows(CancellationException.class, () -> stopped.invoke(request));
    }

    @Test
    void noServiceOfRowsIsRefusedAtOnce() {
        assertThrows(ConfigurationException.class, () -> Service.byRow(null));
    }
}
