package speed;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
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
        batch.forEach((name, column) -> arguments.put(name, column.get(number)));
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
        private static final int PRECISION = 38;
        private static final int USUAL_SCALE = 18;
        private static final String RESULT = "the result ";
        private static final Map<Class<?>, Kind> KINDS = Map.of(
                Long.class, Kind.INT64,
                Double.class, Kind.FLOAT64,
                Boolean.class, Kind.BOOL,
                String.class, Kind.UTF8,
                byte[].class, Kind.BINARY,
                Instant.class, Kind.TIMESTAMP,
                BigDecimal.class, Kind.DECIMAL);

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
            } else if (answer == null || KINDS.containsKey(answer.getClass())) {
                return answer;
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

        /** The kind is that of the first value; nulls alone are FLOAT64. */
        private static Kind kindOf(String result, List<Object> cells) {
            Object first = first(cells);
            Kind kind = first == null ? Kind.FLOAT64 : KINDS.get(first.getClass());
            if (kind == null) {
                throw misfit(cells.indexOf(first), result, "is " + kind(first) + ", of which there is no column");
            }
            return kind;
        }

        /** The column of a kind, or of that of its first value where that is null; {@code result} is what errors call it. */
        private static Column column(String result, List<Object> cells, Kind declared) {
            Kind kind = declared == null ? kindOf(result, cells) : declared;
            cells.replaceAll(cell -> fitting(kind, cell));
            int scale = kind == Kind.DECIMAL ? scale(cells) : 0;
            try {
                return made(kind, scale, cells);
            } catch (UnserialisableException misfit) {
                int row = firstMisfit(kind, scale, cells);
                throw misfit(row, result, "is " + kind(cells.get(row)) + " and does not fit into a column of " + kind);
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

        /** The usual scale, unless a row does not fit into it: then as many digits as any row has behind its point. */
        private static int scale(List<Object> cells) {
            int integerDigits = 0;
            int fractionDigits = 0;
            for (Object cell : cells) {
                if (cell instanceof BigDecimal decimal) {
                    BigDecimal plain = decimal.stripTrailingZeros();
                    integerDigits = Math.max(integerDigits, plain.precision() - plain.scale());
                    fractionDigits = Math.max(fractionDigits, plain.scale());
                }
            }
            boolean isUsual = integerDigits <= PRECISION - USUAL_SCALE && fractionDigits <= USUAL_SCALE;
            return isUsual ? USUAL_SCALE : Math.min(fractionDigits, PRECISION);
        }

        @SuppressWarnings("unchecked") // a row that is no decimal is refused as one that does not fit
        private static Column made(Kind kind, int scale, List<?> cells) {
            return kind == Kind.DECIMAL
                    ? Column.decimals(PRECISION, scale, (List<BigDecimal>) cells)
                    : Column.of(kind, cells);
        }

        private static int firstMisfit(Kind kind, int scale, List<Object> cells) {
            int row = 0;
            try {
                for (; row < cells.size(); row++) {
                    made(kind, scale, Collections.singletonList(cells.get(row)));
                }
            } catch (UnserialisableException misfit) {
                return row;
            }
            throw new IllegalStateException("a column fails whose rows fit");
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
