package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.time.DayOfWeek;
import java.time.Duration;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import speed.errors.Execution;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.errors.WireException;

/** V-1, V-2, S-20: values of Java's types between nodes. */
class TypedValuesTest extends TwoNodes {
    private record Line(String article, int pieces) {}

    private record Order(UUID id, LocalDate due, List<Line> lines, Optional<String> note) {}

    private static final Order ORDER =
            new Order(UUID.randomUUID(), LocalDate.of(2026, 11, 25), List.of(new Line("tea", 2)), Optional.empty());

    @Test
    void argumentsAndResultsAreOfTheTypesThatBothSidesName() {
        billing.register("order", request -> request.get("order", Order.class));
        billing.register("sum", request -> request.get("prices", BigDecimal[].class)[0].add(BigDecimal.ONE));
        billing.register(
                "later",
                request -> request.get("day", DayOfWeek.class)
                        .plus(request.get("by", Duration.class).toDays()));
        assertEquals(ORDER, analytics.call("billing", "order", Map.of("order", ORDER), Order.class));
        assertEquals(
                new BigDecimal("2.50"),
                analytics.call(
                        "billing", "sum", Map.of("prices", Set.of(new BigDecimal("1.50"))), BigDecimal.class, SOON));
        assertEquals(
                DayOfWeek.TUESDAY,
                analytics.call(
                        "billing",
                        "later",
                        Map.of("day", DayOfWeek.MONDAY, "by", Duration.ofDays(1)),
                        DayOfWeek.class));
        assertEquals(
                ORDER,
                analytics
                        .submit("billing", "order", Map.of("order", ORDER))
                        .thenApply(order -> Value.as(order, Order.class))
                        .join());
    }

    @Test
    void whatOtherLanguagesGetIsOfTheKindsThatTheyHave() {
        billing.register("echo", request -> request.arguments().get("value"));
        assertEquals(
                Map.of("article", "tea", "pieces", 2L),
                analytics.call("billing", "echo", Map.of("value", new Line("tea", 2))));
    }

    @Test
    void payloadsOfMessagesAreTakenAsAType() throws Exception {
        analytics.send("billing", ORDER);
        analytics.send("billing", ORDER.id());
        assertEquals(ORDER, billing.receive(SOON).payload(Order.class));
        Message id = billing.receive(SOON);
        assertEquals("text/plain", id.contentType());
        assertEquals(ORDER.id(), id.payload(UUID.class));
        assertEquals(
                "BAD_MESSAGE: payload must be Long, not String",
                assertThrows(WireException.class, () -> id.payload(Long.class)).getMessage());
    }

    @Test
    void aResultOfAnotherTypeIsNoFaultOfTheArguments() {
        billing.register("text", request -> "no number");
        WireException misfit =
                assertThrows(WireException.class, () -> analytics.call("billing", "text", Map.of(), Double.class));
        assertEquals("BAD_PAYLOAD: the result of 'text' must be Double, not String", misfit.getMessage());
        assertEquals(
                List.of("billing", "text", Execution.RAN),
                List.of(misfit.node(), misfit.service(), misfit.execution()));
        analytics.register("relay", request -> analytics.call("billing", "text", Map.of(), Double.class));
        ExecutionFailedException failed =
                assertThrows(ExecutionFailedException.class, () -> billing.call("analytics", "relay", Map.of()));
        assertEquals("INTERNAL_ERROR", failed.details().get("cause"));
    }

    @Test
    void anArgumentThatDoesNotFitIsNamedToItsCaller() {
        billing.register("half", request -> request.get("n", int.class) / 2);
        InvalidArgumentsException refused = assertThrows(
                InvalidArgumentsException.class, () -> analytics.call("billing", "half", Map.of("n", 1L << 40)));
        assertEquals("n", refused.details().get("argument"));
        assertEquals(
                "billing: half: argument 'n' must be int, not a number beyond its range".replace("int", "Integer"),
                refused.getMessage());
    }
}
