package speed.errors;

import java.util.Map;

/** The caller withdrew the call; the detail phase is queued, and it never began, or running (S-8). */
public final class CallWithdrawnException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code WITHDRAWN.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public CallWithdrawnException(String message, Map<String, Object> details) {
        super("WITHDRAWN", message, details);
    }
}
