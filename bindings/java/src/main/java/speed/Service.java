package speed;

/**
 * What a node offers to others (S-9). It must be thread-safe: it runs on the node's worker threads, several requests at
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
}
