package speed.errors;

import java.util.Map;

/** The other node, or one of its services, does not allow this node. Without a grant it is thrown before any write. */
public final class AccessDeniedException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code ACCESS_DENIED.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public AccessDeniedException(String message, Map<String, Object> details) {
        super("ACCESS_DENIED", message, details);
    }

    /**
     * An error with the code ACCESS_DENIED and no details.
     *
     * @param message what happened and what to do
     */
    public AccessDeniedException(String message) {
        this(message, Map.of());
    }
}
