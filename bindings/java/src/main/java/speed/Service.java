package speed;

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
     * its answers make a column. The first row that fails ends the call; its number is the detail {@code row}.
     *
     * @param row answers one row with a value, or null
     * @return a service that answers a batch with a column, and a single call as before
     */
    static Service byRow(Service row) {
        return request -> RowService.answer(request, row::invoke);
    }
}
