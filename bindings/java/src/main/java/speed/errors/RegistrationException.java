package speed.errors;

/** This node has no right, or no longer a right, to its name. */
public class RegistrationException extends SpeedException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code INVALID_STATE.
     *
     * @param message what happened and what to do
     */
    public RegistrationException(String message) {
        this("INVALID_STATE", message);
    }

    /**
     * For the kinds of this error.
     *
     * @param code the stable code of the kind
     * @param message what happened and what to do
     */
    protected RegistrationException(String code, String message) {
        super(code, message);
    }
}
