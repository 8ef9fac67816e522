package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.Execution;
import speed.internal.core.Family.RetryBudget;
import speed.internal.wire.Contract;

/** S-40, S-41: the published choices. */
class FamilyTest {
    private final Contract vectors = Contract.vectors("groups");

    private static Execution execution(Contract one) {
        return switch (one.text("execution")) {
            case "not begun" -> Execution.NOT_BEGUN;
            case "ran" -> Execution.RAN;
            default -> Execution.MAY_HAVE_RUN;
        };
    }

    private static List<String> texts(Contract one, String name) {
        return ((List<?>) one.get(name)).stream().map(String.class::cast).toList();
    }

    @TestFactory
    Stream<DynamicTest> aMemberIsChosen() {
        return vectors.each("choices", one -> {
            Map<String, Integer> underWay = new HashMap<>();
            ((Map<?, ?>) one.get("under_way"))
                    .forEach((name, calls) -> underWay.put((String) name, ((Number) calls).intValue()));
            String chosen = Family.chosen(texts(one, "members"), underWay, one.text("last"), (String) one.get("key"));
            assertEquals(one.text("gives"), chosen);
        });
    }

    @TestFactory
    Stream<DynamicTest> anotherMemberIsAsked() {
        return vectors.each(
                "passed_on", one -> assertEquals(one.get("gives"), Family.passesOn(one.text("code"), execution(one))));
    }

    @TestFactory
    Stream<DynamicTest> aCallIsRepeated() {
        return vectors.each(
                "repeated",
                one -> assertEquals(one.get("gives"), Family.mayRepeat(one.text("code"), execution(one), (Boolean)
                        one.get("idempotent"))));
    }

    @TestFactory
    Stream<DynamicTest> aBudgetIsSpentAndEarned() {
        return vectors.each("budgets", one -> {
            RetryBudget budget = new RetryBudget();
            List<Object> found = new ArrayList<>();
            for (String step : texts(one, "steps")) {
                if (step.equals("failed")) {
                    found.add(budget.failed());
                } else {
                    budget.succeeded(((Number) one.get("budget")).doubleValue());
                    found.add(null);
                }
            }
            assertEquals(one.get("gives"), found);
        });
    }

    @TestFactory
    Stream<DynamicTest> pausesDouble() {
        return vectors.each(
                "pauses",
                one -> assertEquals(
                        one.number("gives_ms") * 1_000_000,
                        Family.backoffNanos(one.number("backoff_ms") * 1_000_000, (int) one.number("made"))));
    }

    private static List<Map<String, Object>> described(String version, Object parameters) {
        return List.of(Map.of("name", "quote", "version", version, "parameters", parameters));
    }

    @Test
    void whatDiffersBetweenMembersIsNamed() {
        Map<String, List<Map<String, Object>>> members = new TreeMap<>();
        members.put("pricing.1", described("1", Map.of()));
        members.put("pricing.2", described("1", Map.of()));
        assertEquals("", Family.difference(members));
        Map<String, List<Map<String, Object>>> others = Map.of(
                "has version '1' and '2'", described("2", Map.of()),
                "is not described alike", described("1", Map.of("type", "object")),
                "is a service of one of them alone", List.of());
        others.forEach((says, theirs) -> {
            members.put("pricing.2", theirs);
            assertEquals("'pricing.1' and 'pricing.2' differ: 'quote' " + says, Family.difference(members));
        });
    }
}
