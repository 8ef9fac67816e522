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

/** A service of one row that answers batches (C-6, C-7). See {@link Service#byRow}. */
final class RowService implements Service {
    private static final Map<Class<?>, Kind> KINDS = Map.of(
            Long.class, Kind.INT64,
            Double.class, Kind.FLOAT64,
            Boolean.class, Kind.BOOL,
            String.class, Kind.UTF8,
            byte[].class, Kind.BINARY,
            java.time.Instant.class, Kind.TIMESTAMP);

    private final Service row;

    RowService(Service row) {
        this.row = row;
    }

    @Override
    public Object invoke(Request request) throws Exception {
        Map<String, Column> batch = request.columns();
        if (batch.isEmpty()) {
            return row.invoke(request);
        }
        int rows = batch.values().iterator().next().rows();
        List<Object> answers = new ArrayList<>(rows);
        for (int number = 0; number < rows; number++) {
            answers.add(answer(request, batch, number));
        }
        return Column.of(kindOf(answers), answers);
    }

    private Object answer(Request request, Map<String, Column> batch, int number) {
        Map<String, Object> arguments = new LinkedHashMap<>(request.arguments());
        batch.forEach((name, column) -> arguments.put(name, column.get(number)));
        try {
            return row.invoke(request.withArguments(arguments));
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
