package speed.errors;

import java.util.Map;

/** The service refused the arguments: wrong names, types or values. */
public final class InvalidArgumentsException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code INVALID_ARGUMENTS.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public InvalidArgumentsException(String message, Map<String, Object> details) {
        super("INVALID_ARGUMENTS", message, details);
    }

    /**
     * An error with the code INVALID_ARGUMENTS and no details.
     *
     * @param message what happened and what to do
     */
    public InvalidArgumentsException(String message) {
        this(message, Map.of());
    }
}
