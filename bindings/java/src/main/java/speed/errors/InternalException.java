package speed.errors;

import java.util.Map;

/** The other side failed in a way that is not the service's fault. */
public final class InternalException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code INTERNAL_ERROR.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public InternalException(String message, Map<String, Object> details) {
        super("INTERNAL_ERROR", message, details);
    }

    /**
     * An error with the code INTERNAL_ERROR and no details.
     *
     * @param message what happened and what to do
     */
    public InternalException(String message) {
        this(message, Map.of());
    }
}
