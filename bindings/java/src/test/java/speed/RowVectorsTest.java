package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.columns.Column;
import speed.columns.Kind;
import speed.errors.CallException;
import speed.internal.wire.Contract;
import speed.tool.PlainJson.Notation;

/** Services of rows answer as published (C-7, C-8). */
class RowVectorsTest {
    private final Contract vectors = Contract.vectors("rows");

    private static Kind kind(Contract one, String name) {
        return one.get(name) == null ? null : Kind.valueOf(one.text(name).toUpperCase(Locale.ROOT));
    }

    @SuppressWarnings("unchecked") // the published rows of a decimal column are decimals
    private static Column column(Map<?, ?> published) {
        Contract one = new Contract(published);
        List<?> rows = (List<?>) one.value("rows");
        return switch (kind(one, "kind")) {
            case DECIMAL ->
                Column.decimals((int) one.number("precision"), (int) one.number("scale"), (List<BigDecimal>) rows);
            case FLOAT64 -> Column.of(Kind.FLOAT64, floats(rows));
            default -> Column.of(kind(one, "kind"), rows);
        };
    }

    /** Columns of floats are published with integers where those are meant exactly. */
    private static List<Double> floats(List<?> rows) {
        List<Double> floats = new ArrayList<>();
        rows.forEach(row -> floats.add(row == null ? null : (Double) ((Number) row).doubleValue()));
        return floats;
    }

    /** What the service does for one row. */
    private static Object answer(Request request, Object does) {
        if (!(does instanceof Map<?, ?> act)) {
            return Notation.value(does);
        }
        Map.Entry<?, ?> only = act.entrySet().iterator().next();
        Object content = only.getValue();
        return switch ((String) only.getKey()) {
            case "echo" -> request.arguments().get(content);
            case "take" -> request.get((String) content, Long.class);
            case "raises" -> throw new ArithmeticException((String) content);
            case "says" -> Response.error((String) ((List<?>) content).get(0), (String) ((List<?>) content).get(1));
            default -> Notation.value(does);
        };
    }

    private static Object answered(Contract one) throws Exception {
        List<?> answers = (List<?>) one.get("answers");
        Map<String, Object> batch = new LinkedHashMap<>();
        one.object("arguments")
                .values()
                .forEach((name, published) -> batch.put((String) name, column((Map<?, ?>) published)));
        batch.put("row", Column.of(LongStream.range(0, answers.size()).toArray()));
        Service row = request -> answer(request, answers.get(request.get("row", int.class)));
        Kind declared = kind(one, "declares");
        Service rows = declared == null ? Service.byRow(row) : Service.byRow(row, declared);
        return rows.invoke(new Request("rows", batch, "analytics", "analytics/1", 0, null));
    }

    private static Object expected(Contract result) {
        if (!result.has("columns")) {
            return column(result.values());
        }
        Map<Object, Object> columns = new LinkedHashMap<>();
        for (Object pair : (List<?>) result.get("columns")) {
            columns.put(((List<?>) pair).get(0), column((Map<?, ?>) ((List<?>) pair).get(1)));
        }
        return columns;
    }

    @TestFactory
    Stream<DynamicTest> answersOfRowsBecomeColumnsAsPublished() {
        return vectors.each("valid", one -> {
            Object expected = expected(one.object("result"));
            Object answered = answered(one);
            assertEquals(expected, answered);
            if (expected instanceof Map<?, ?> columns) {
                assertEquals(List.copyOf(columns.keySet()), List.copyOf(((Map<?, ?>) answered).keySet()));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> theFirstBadRowEndsABatchAsPublished() {
        return vectors.each("invalid", one -> {
            Contract expected = one.object("error");
            CallException error = assertThrows(CallException.class, () -> answered(one));
            assertEquals(expected.text("code"), error.code());
            assertEquals(expected.number("row"), error.details().get("row"));
            assertTrue(error.getMessage().startsWith(expected.text("begins")), error.getMessage());
            assertTrue(error.getMessage().contains(expected.text("names")), error.getMessage());
        });
    }
}
