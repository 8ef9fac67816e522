package speed;

import speed.columns.Kind;
import speed.internal.wire.Require;

/**
 * What a node offers to others. It must be thread-safe: it runs on the node's worker threads, several requests at
 * a time.
 */
@FunctionalInterface
public interface Service {
    /**
     * Answers one request. An {@code InvalidArgumentsException} becomes INVALID_ARGUMENTS, anything else that is
     * thrown becomes EXECUTION_FAILED with its kind and text.
     *
     * @param request the arguments, and who asks
     * @return the result, or a {@link Response} to say an error
     * @throws Exception when the service fails
     */
    Object invoke(Request request) throws Exception;

    /**
     * Makes a service of one row a service of batches too: columns among the arguments are handed to it row by row, and
     * its answers make a column of the kind of the first, or one for each key where they are maps or records. The first row
     * that fails, or does not fit, ends the call; its number is the detail {@code row}.
     *
     * @param row answers one row with a value, a map, a record, or null
     * @return a service that answers a batch with columns, and a single call as before
     * @throws speed.errors.ConfigurationException for null
     */
    static Service byRow(Service row) {
        Service known = Require.value("row", row);
        return request -> RowService.answer(request, known::invoke, null);
    }

    /**
     * The same for answers whose first does not tell the kind of their column: whole numbers among floats, or among
     * decimals, which become decimal(38, 18), or have the scale that their digits need where that does not hold them.
     * Columns of maps and records have the kind of their own first value.
     *
     * @param row answers one row with a value, a map, a record, or null
     * @param kind of the column of answers
     * @return a service that answers a batch with columns, and a single call as before
     * @throws speed.errors.ConfigurationException for null
     */
    static Service byRow(Service row, Kind kind) {
        Service known = Require.value("row", row);
        Kind declared = Require.value("kind", kind);
        return request -> RowService.answer(request, known::invoke, declared);
    }
}
