package speed.errors;

import java.util.Map;

/** The node has no service of this name. */
public final class ServiceNotFoundException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code SERVICE_NOT_FOUND.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public ServiceNotFoundException(String message, Map<String, Object> details) {
        super("SERVICE_NOT_FOUND", message, details);
    }

    /**
     * An error with the code SERVICE_NOT_FOUND and no details.
     *
     * @param message what happened and what to do
     */
    public ServiceNotFoundException(String message) {
        this(message, Map.of());
    }
}
