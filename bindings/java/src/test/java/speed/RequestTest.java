package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;
import speed.errors.InvalidArgumentsException;

/** S-9, V-1: what a service is given by name. */
class RequestTest {
    private static final UUID ID = UUID.randomUUID();

    private record Point(double x, double y) {}

    private static Request request(Object value) {
        Map<String, Object> arguments = new LinkedHashMap<>();
        arguments.put("a", value);
        return new Request("tax", arguments, "etl", "1.1", 0, null);
    }

    private static InvalidArgumentsException refusal(Class<?> type, Object value) {
        return assertThrows(
                InvalidArgumentsException.class, () -> request(value).get("a", type));
    }

    @Test
    void anArgumentIsTakenAsTheRequestedType() {
        assertEquals(7, request(7L).get("a", Integer.class));
        assertEquals(7, request(7L).get("a", int.class));
        assertEquals((short) 7, request(7L).get("a", Short.class));
        assertEquals((byte) 7, request(7L).get("a", byte.class));
        assertEquals(7.0, request(7L).get("a", double.class));
        assertEquals(1.5f, request(1.5).get("a", Float.class));
        assertEquals(ID, request(ID.toString()).get("a", UUID.class));
        assertEquals(new BigDecimal("-12.50"), request("-12.50").get("a", BigDecimal.class));
        assertEquals(new Point(1, 2.5), request(Map.of("x", 1L, "y", 2.5)).get("a", Point.class));
    }

    @Test
    void whatDoesNotFitIsNamedWithTheArgument() {
        InvalidArgumentsException error = refusal(Integer.class, 1L << 31);
        assertEquals("tax: argument 'a' must be Integer, not a number beyond its range", error.getMessage());
        assertEquals(
                Map.of("argument", "a", "expected", "Integer", "given", "a number beyond its range"), error.details());
        assertEquals(
                "tax: argument 'a' must be Double, not a whole number that would lose digits",
                refusal(Double.class, (1L << 53) + 1).getMessage());
        assertEquals(
                "tax: argument 'a' must be Long, not Boolean",
                refusal(long.class, true).getMessage());
        assertEquals(
                "tax: argument 'a'[1].y is missing: it must be double",
                refusal(Point[].class, List.of(Map.of("x", 1L, "y", 2L), Map.of("x", 1L)))
                        .getMessage());
    }

    @Test
    void whatIsMissingDiffersFromWhatIsNull() {
        assertEquals(
                "tax: argument 'a' must be Double, not null",
                refusal(Double.class, null).getMessage());
        InvalidArgumentsException error =
                assertThrows(InvalidArgumentsException.class, () -> request(1L).get("b", Double.class));
        assertEquals("tax: argument 'b' is missing", error.getMessage());
        assertEquals("b", error.details().get("argument"));
    }

    @Test
    void anArgumentMayBeLeftOutWhereTheServiceSaysSo() {
        assertEquals(0.18, request(1L).getOr("rate", Double.class, 0.18));
        assertEquals(1.0, request(1L).getOr("a", Double.class, 0.18));
        assertEquals(
                "tax: argument 'a' must be Double, not null",
                assertThrows(
                                InvalidArgumentsException.class,
                                () -> request(null).getOr("a", Double.class, 0.18))
                        .getMessage());
        assertEquals(Optional.empty(), request(null).find("a", Double.class));
        assertEquals(Optional.empty(), request(1L).find("rate", Double.class));
        assertEquals(Optional.of(1.0), request(1L).find("a", Double.class));
        assertEquals(Optional.empty(), request(1L).get("rate", Optional.class));
        assertThrows(InvalidArgumentsException.class, () -> request("x").find("a", Double.class));
    }

    @Test
    void aTypeThatNoArgumentIsTakenAsIsTheServicesMistake() {
        assertThrows(ConfigurationException.class, () -> request("x").get("a", Thread.class));
    }
}
