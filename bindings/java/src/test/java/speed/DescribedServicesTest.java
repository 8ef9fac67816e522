package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;
import speed.errors.InvalidArgumentsException;
import speed.options.ServiceDescription;
import speed.options.ServiceOptions;

/** What a service declares: others read it, and its arguments are checked by it (S-9, S-26). */
class DescribedServicesTest extends TwoNodes {
    record Item(BigDecimal price, Optional<LocalDate> day) {}

    private static final ServiceDescription TOTAL = ServiceDescription.of("Adds up what items cost.")
            .withVersion("2")
            .withParameter("items", Item[].class)
            .withOptionalParameter("currency", String.class)
            .withResult(BigDecimal.class);

    private final AtomicInteger runs = new AtomicInteger();

    private void registerTotal() {
        billing.register(
                "total",
                request -> runs.incrementAndGet(),
                ServiceOptions.DEFAULT.withIdempotence().withDescription(TOTAL));
    }

    @Test
    void aServiceIsDescribedAsItDeclares() {
        registerTotal();
        billing.register("undeclared", request -> 1);
        List<Map<String, Object>> described = analytics.describe("billing");
        assertEquals(
                List.of("total", "undeclared"),
                described.stream().map(one -> one.get("name")).toList());
        Map<String, Object> total = described.get(0);
        assertEquals("Adds up what items cost.", total.get("summary"));
        assertEquals("2", total.get("version"));
        assertEquals(true, total.get("idempotent"));
        Map<?, ?> parameters = (Map<?, ?>) total.get("parameters");
        assertEquals(List.of("items"), parameters.get("required"));
        assertEquals(false, parameters.get("additionalProperties"));
        Map<?, ?> items = (Map<?, ?>) ((Map<?, ?>) parameters.get("properties")).get("items");
        Map<?, ?> fields = (Map<?, ?>) ((Map<?, ?>) items.get("items")).get("properties");
        assertEquals(Map.of("type", "string", "format", "decimal"), fields.get("price"));
        assertEquals(Map.of("type", "string", "format", "decimal"), total.get("result"));
        assertFalse(described.get(1).containsKey("parameters"));
    }

    @Test
    void argumentsAreCheckedBeforeTheServiceIsInvoked() {
        registerTotal();
        List<Map<String, String>> items = List.of(Map.of("price", "1.5"));
        assertEquals(1L, analytics.call("billing", "total", Map.of("items", items)));
        InvalidArgumentsException unknown = refused(Map.of("items", items, "curency", "EUR"));
        assertEquals("curency", unknown.details().get("argument"));
        assertTrue(unknown.getMessage().contains("argument 'curency' is unknown; there are items, currency"));
        assertEquals("items", refused(Map.of()).details().get("argument"));
        assertTrue(refused(Map.of("items", List.of(Map.of("price", 1.5))))
                .getMessage()
                .contains("price"));
        assertEquals(
                "currency",
                refused(Map.of("items", items, "currency", 5)).details().get("argument"));
        assertEquals(1, runs.get());
    }

    @Test
    void aDescriptionIsCheckedWhereItIsMade() {
        assertThrows(ConfigurationException.class, () -> TOTAL.withParameter("items", Long.class));
        assertThrows(ConfigurationException.class, () -> TOTAL.withParameter("", Long.class));
    }

    private InvalidArgumentsException refused(Map<String, Object> arguments) {
        return assertThrows(InvalidArgumentsException.class, () -> analytics.call("billing", "total", arguments));
    }
}
