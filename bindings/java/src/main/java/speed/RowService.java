package speed;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import speed.columns.Column;
import speed.columns.Kind;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;

/** Answers a batch row by row, by what answers one row. See {@code Service.byRow}. */
final class RowService {
    private static final Map<Class<?>, Kind> KINDS = Map.of(
            Long.class, Kind.INT64,
            Double.class, Kind.FLOAT64,
            Boolean.class, Kind.BOOL,
            String.class, Kind.UTF8,
            byte[].class, Kind.BINARY,
            java.time.Instant.class, Kind.TIMESTAMP);

    /** What answers one row. */
    interface Row {
        Object answer(Request request) throws Exception;
    }

    private RowService() {}

    /** A column of answers to the columns of a request; one answer where it has none. */
    static Object answer(Request request, Row row) throws Exception {
        Map<String, Column> batch = request.columns();
        if (batch.isEmpty()) {
            return row.answer(request);
        }
        int rows = batch.values().iterator().next().rows();
        List<Object> answers = new ArrayList<>(rows);
        for (int number = 0; number < rows; number++) {
            answers.add(answerOne(request, row, batch, number));
        }
        return Column.of(kindOf(answers), answers);
    }

    private static Object answerOne(Request request, Row row, Map<String, Column> batch, int number) {
        Map<String, Object> arguments = new LinkedHashMap<>(request.arguments());
        batch.forEach((name, column) -> arguments.put(name, column.get(number)));
        try {
            return row.answer(request.withArguments(arguments));
        } catch (InvalidArgumentsException error) {
            throw new InvalidArgumentsException("row " + number + ": " + error.getMessage(), named(error.details(), number));
        } catch (Exception error) {
            throw new ExecutionFailedException(
                    "row " + number + ": " + error.getClass().getName() + ": " + error.getMessage(), named(Map.of(), number));
        }
    }

    private static Map<String, Object> named(Map<String, Object> details, int number) {
        Map<String, Object> named = new LinkedHashMap<>(details);
        named.put("row", (long) number);
        return named;
    }

    /** The kind of the first value; nulls alone are FLOAT64. */
    private static Kind kindOf(List<Object> answers) {
        Object first = answers.stream().filter(Objects::nonNull).findFirst().orElse(0.0);
        Kind kind = KINDS.get(first.getClass());
        if (kind == null) {
            throw new ExecutionFailedException("rows of " + first.getClass().getName() + " make no column", Map.of());
        }
        return kind;
    }
}
