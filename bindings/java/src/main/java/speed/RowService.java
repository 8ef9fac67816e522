package speed;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import speed.columns.Column;
import speed.columns.Kind;

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
        throw RowAnswers.failed(answer.errorCode(), answer.errorMessage() == null ? "" : answer.errorMessage(), details, number);
    }
}
