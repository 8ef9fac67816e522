package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.internal.wire.Contract;
import speed.internal.wire.StreamPart.Credit;

/** S-29, S-32, S-33: the published credit, windows and rates. */
class StreamFlowTest {
    private final Contract vectors = Contract.vectors("streams");

    private static long number(Map<?, ?> step, String name) {
        return ((Number) step.get(name)).longValue();
    }

    private static List<Map<?, ?>> steps(Contract one) {
        return one.cases("steps").stream().<Map<?, ?>>map(Contract::values).toList();
    }

    @TestFactory
    Stream<DynamicTest> whatMayBeSentIsTold() {
        return vectors.each("credit", one -> {
            List<?> begins = (List<?>) one.get("begins");
            StreamCredit credit = new StreamCredit((Long) begins.get(0), (Long) begins.get(1));
            for (Map<?, ?> step : steps(one)) {
                if (step.get("do").equals("grant")) {
                    credit.grant(new Credit(number(step, "items"), number(step, "bytes")));
                } else {
                    assertEquals(step.get("gives"), credit.send(number(step, "bytes")), step.toString());
                }
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> whatArrivesIsJudgedAndCreditIsGiven() {
        return vectors.each("windows", one -> {
            StreamWindow window = Boolean.TRUE.equals(one.get("open"))
                    ? StreamWindow.opened(one.number("items"), one.number("bytes"))
                    : StreamWindow.closed(one.number("items"), one.number("bytes"));
            for (Map<?, ?> step : steps(one)) {
                assertEquals(step.get("gives"), given(window, step), step.toString());
            }
        });
    }

    private static Object given(StreamWindow window, Map<?, ?> step) {
        return switch ((String) step.get("do")) {
            case "arrive" ->
                window.arrive(number(step, "number"), number(step, "items"), number(step, "bytes"))
                        .name()
                        .toLowerCase(Locale.ROOT)
                        .replace('_', ' ');
            case "process" -> totals(window.process(number(step, "items"), number(step, "bytes")));
            default -> totals(window.open());
        };
    }

    private static List<Long> totals(Credit credit) {
        return credit == null ? null : List.of(credit.items(), credit.bytes());
    }

    @TestFactory
    Stream<DynamicTest> progressIsToldSeldom() {
        return vectors.each("rates", one -> {
            ProgressRate rate = new ProgressRate();
            for (Map<?, ?> step : steps(one)) {
                Double total = step.get("total") == null ? null : ((Number) step.get("total")).doubleValue();
                long now = (long) (((Number) step.get("now")).doubleValue() * 1e9);
                double done = ((Number) step.get("done")).doubleValue();
                assertEquals(step.get("gives"), rate.takes(done, total, now), step.toString());
            }
        });
    }
}
