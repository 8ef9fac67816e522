package speed;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CancellationException;
import speed.columns.Column;
import speed.columns.Kind;
import speed.errors.ApplicationException;
import speed.errors.CallException;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.errors.UnserialisableException;
import speed.internal.wire.Conversion.Numbers;
import speed.internal.wire.Fault;
import speed.internal.wire.Plain;
import speed.internal.wire.ServiceCode;

/** Answers a batch row by row, by what answers one row. See {@code Service.byRow}. */
final class RowService {
    /** What answers one row. */
    interface Row {
        Object answer(Request request) throws Exception;
    }

    private RowService() {}

    /** Columns of answers to the columns of a request, of a kind unless it is null; one answer where it has none. */
    static Object answer(Request request, Row row, Kind kind) throws Exception {
        Map<String, Column> batch = request.columns();
        if (batch.isEmpty()) {
            return row.answer(request);
        }
        int rows = batch.values().iterator().next().rows();
        List<Object> answers = new ArrayList<>(rows);
        for (int number = 0; number < rows; number++) {
            answers.add(answerOne(request, row, batch, number));
        }
        return RowAnswers.columns(answers, kind);
    }

    private static Object answerOne(Request request, Row row, Map<String, Column> batch, int number) throws Exception {
        Map<String, Object> arguments = new LinkedHashMap<>(request.arguments());
        batch.forEach((name, column) -> arguments.put(name, argument(name, column, number)));
        Object answer;
        try {
            answer = row.answer(request.withArguments(arguments));
        } catch (Throwable error) { // whatever a row throws, it is named
            if (request.cancellation().isCancelled() && isCancellation(error)) {
                throw error; // no row is to blame
            }
            throw RowAnswers.thrown(error, number);
        }
        return answer instanceof Response response ? resultOf(response, number) : answer;
    }

    /** The value of a row; one that Java has not is refused. */
    private static Object argument(String name, Column column, int number) {
        try {
            return column.get(number);
        } catch (DateTimeException | ArithmeticException | IllegalStateException beyond) {
            String text = "row " + number + ": argument '" + name + "': " + beyond.getMessage();
            throw new InvalidArgumentsException(text, Map.of("argument", name, "row", (long) number));
        }
    }

    private static boolean isCancellation(Throwable error) {
        return error instanceof CancellationException || error instanceof InterruptedException;
    }

    private static Object resultOf(Response answer, int number) {
        if (answer.errorCode() == null) {
            return answer.result();
        }
        Map<String, Object> details = answer.details() == null ? Map.of() : answer.details();
        throw RowAnswers.failed(
                answer.errorCode(), answer.errorMessage() == null ? "" : answer.errorMessage(), details, number);
    }

    /** What a service answered row by row, as columns. */
    static final class RowAnswers {
        private static final String RESULT = "the result ";
        private static final Set<Class<?>> CELLS = Set.of(
                Long.class,
                Double.class,
                Boolean.class,
                String.class,
                byte[].class,
                Instant.class,
                BigDecimal.class,
                LocalDate.class,
                LocalTime.class,
                LocalDateTime.class,
                Duration.class);

        private RowAnswers() {}

        /** The column of some answers, of a kind unless it is null; a column for each key where they are maps. */
        static Object columns(List<?> answers, Kind declared) {
            List<Object> cells = new ArrayList<>(answers.size());
            for (int row = 0; row < answers.size(); row++) {
                cells.add(cell(answers.get(row), row));
            }
            return first(cells) instanceof Map ? columnsOfMaps(cells) : column(RESULT, cells, declared);
        }

        /** A column for each key of any row, in the order in which they are met; null where a row has it not. */
        private static Map<String, Column> columnsOfMaps(List<Object> rows) {
            Map<String, List<Object>> cells = new LinkedHashMap<>();
            for (int number = 0; number < rows.size(); number++) {
                int row = number;
                members(rows.get(row), row)
                        .forEach((name, answer) -> cells.computeIfAbsent(text(name, row), any -> nulls(rows.size()))
                                .set(row, cell(answer, row)));
            }
            Map<String, Column> columns = new LinkedHashMap<>();
            cells.forEach((name, column) -> columns.put(name, column(RESULT + "'" + name + "' ", column, null)));
            return columns;
        }

        private static Map<?, ?> members(Object answer, int row) {
            if (answer == null || answer instanceof Map) {
                return answer == null ? Map.of() : (Map<?, ?>) answer;
            }
            throw misfit(row, RESULT, "is " + kind(answer) + " and no map, as those before are");
        }

        private static String text(Object name, int row) {
            if (name instanceof String text) {
                return text;
            }
            throw misfit(row, RESULT, "has a key that is no text");
        }

        private static List<Object> nulls(int rows) {
            return new ArrayList<>(Collections.nCopies(rows, null));
        }

        // --- one column ---

        /** An answer as a value of a column: of the widest type of its kind. */
        private static Object cell(Object answer, int row) {
            if (answer instanceof Integer || answer instanceof Short || answer instanceof Byte) {
                return ((Number) answer).longValue();
            } else if (answer instanceof Float single) {
                return single.doubleValue();
            } else if (answer == null || CELLS.contains(answer.getClass())) {
                return answer;
            } else if (answer instanceof List<?> items) {
                List<Object> cells = new ArrayList<>(items.size());
                items.forEach(item -> cells.add(cell(item, row)));
                return cells;
            } else if (answer instanceof Map<?, ?> map) {
                Map<Object, Object> cells = new LinkedHashMap<>();
                map.forEach((key, item) -> cells.put(cell(key, row), cell(item, row)));
                return cells;
            }
            Object plain = plain(answer, row);
            return plain == answer ? answer : cell(plain, row);
        }

        private static Object plain(Object answer, int row) {
            try {
                return Plain.of(answer, "the result");
            } catch (UnserialisableException beyond) {
                throw failed("EXECUTION_FAILED", beyond.getMessage(), Map.of(), row);
            } catch (RuntimeException | Error failure) { // a record's accessors are the program's code
                throw thrown(failure, row);
            }
        }

        /** The column of a kind, or of that of its first value where that is null; {@code result} is what errors call it. */
        private static Column column(String result, List<Object> cells, Kind kind) {
            if (kind != null) {
                cells.replaceAll(cell -> fitting(kind, cell));
            }
            try {
                return made(kind, cells);
            } catch (UnserialisableException misfit) {
                if (!(misfit.getCause() instanceof Column.RowMisfit one)) {
                    Object first = first(cells);
                    throw misfit(cells.indexOf(first), result, "is " + kind(first) + ", of which there is no column");
                }
                String type = kind == null ? "" : " of " + kind;
                String what = kind(cells.get(one.row()));
                throw misfit(one.row(), result, "is " + what + " and does not fit into a column" + type);
            }
        }

        /** A whole number becomes a float or a decimal, if that loses no digit; all else stays as it is. */
        private static Object fitting(Kind kind, Object cell) {
            if (!(cell instanceof Long || cell instanceof BigInteger)) {
                return cell;
            } else if (kind == Kind.FLOAT64) {
                return Objects.requireNonNullElse(Numbers.exactDouble((Number) cell), cell);
            }
            return kind == Kind.DECIMAL ? new BigDecimal(cell.toString()) : cell;
        }

        private static Column made(Kind kind, List<?> cells) {
            return kind == null ? Column.of(cells) : Column.of(kind, cells);
        }

        private static Object first(List<Object> cells) {
            return cells.stream().filter(Objects::nonNull).findFirst().orElse(null);
        }

        private static String kind(Object answer) {
            return answer.getClass().getSimpleName();
        }

        private static CallException misfit(int row, String result, String why) {
            return failed("EXECUTION_FAILED", result + why, Map.of(), row);
        }

        /** The error of a row that threw; what the row did not say on purpose is its cause, for the log. */
        static CallException thrown(Throwable error, int number) {
            Fault fault = Fault.of(error);
            CallException failed = failed(fault.code(), fault.text(), fault.details(), number);
            if (!fault.isDeclared()) {
                failed.initCause(error);
            }
            return failed;
        }

        /** The error that ends a batch because of one row. */
        static CallException failed(String code, String why, Map<String, Object> details, int number) {
            String at = "row " + number + ": ";
            String text = at + why;
            Map<String, Object> named = new LinkedHashMap<>(details);
            named.put("row", (long) number);
            if (code.equals("INVALID_ARGUMENTS")) {
                return new InvalidArgumentsException(text, named);
            }
            if (ServiceCode.isOwn(code)) {
                return new ApplicationException(code, text, named);
            }
            return new ExecutionFailedException(
                    ServiceCode.isContracts(code) ? text : at + ServiceCode.refused(code), named);
        }
    }
}
