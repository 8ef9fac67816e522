package speed.errors;

import java.util.Map;

/** The deadline passed; the detail phase is queued, running or unanswered (S-4). */
public final class CallTimeoutException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code TIMEOUT.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public CallTimeoutException(String message, Map<String, Object> details) {
        super("TIMEOUT", message, details);
    }

    /**
     * An error with the code TIMEOUT and no details.
     *
     * @param message what happened and what to do
     */
    public CallTimeoutException(String message) {
        this(message, Map.of());
    }
}
