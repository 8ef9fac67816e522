package speed.errors;

import java.util.Map;

/** The service failed, or returned what cannot be serialised. */
public final class ExecutionFailedException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code EXECUTION_FAILED.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public ExecutionFailedException(String message, Map<String, Object> details) {
        super("EXECUTION_FAILED", message, details);
    }

    /**
     * An error with the code EXECUTION_FAILED and no details.
     *
     * @param message what happened and what to do
     */
    public ExecutionFailedException(String message) {
        this(message, Map.of());
    }
}
