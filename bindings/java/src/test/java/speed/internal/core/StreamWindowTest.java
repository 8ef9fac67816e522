package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.internal.core.StreamWindow.Credit;
import speed.internal.wire.Contract;

/** S-29, S-33, S-32: the published steps of streams. */
class StreamWindowTest {
    private static final Contract VECTORS = Contract.vectors("streams");

    private static Credit credit(Object pair) {
        List<?> two = (List<?>) pair;
        return two == null ? null : new Credit((Long) two.get(0), (Long) two.get(1));
    }

    private static Double seconds(Object number) {
        return number == null ? null : ((Number) number).doubleValue();
    }

    @TestFactory
    Stream<DynamicTest> whoSendsItemsKeepsToTheCredit() {
        return VECTORS.each("credit", one -> {
            StreamWindow.Sender sender = new StreamWindow.Sender(credit(one.get("begins")));
            for (Contract step : one.cases("steps")) {
                if (step.text("do").equals("grant")) {
                    sender.grant(new Credit(step.number("items"), step.number("bytes")));
                } else {
                    assertEquals(step.get("gives"), sender.send(step.number("bytes")), step.values()::toString);
                }
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> whoReadsItemsJudgesThemAndGrantsMore() {
        return VECTORS.each("windows", one -> {
            Credit size = new Credit(one.number("items"), one.number("bytes"));
            StreamWindow window = new StreamWindow(size, (Boolean) one.get("open"));
            for (Contract step : one.cases("steps")) {
                Object wanted = step.text("do").equals("arrive") ? step.get("gives") : credit(step.get("gives"));
                assertEquals(wanted, taken(window, step), step.values()::toString);
            }
        });
    }

    private static Object taken(StreamWindow window, Contract step) {
        return switch (step.text("do")) {
            case "open" -> window.open();
            case "process" -> window.process(step.number("items"), step.number("bytes"));
            default ->
                window.arrive(step.number("number"), step.number("items"), step.number("bytes"))
                        .name()
                        .toLowerCase(Locale.ROOT)
                        .replace('_', ' ');
        };
    }

    @TestFactory
    Stream<DynamicTest> progressIsToldSeldomButForItsEnd() {
        return VECTORS.each("rates", one -> {
            StreamWindow.ProgressRate rate = new StreamWindow.ProgressRate();
            for (Contract step : one.cases("steps")) {
                boolean takes =
                        rate.takes(seconds(step.get("done")), seconds(step.get("total")), seconds(step.get("now")));
                assertEquals(step.get("gives"), takes, step.values()::toString);
            }
        });
    }
}
