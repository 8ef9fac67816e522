package speed.errors;

/** The node object cannot be used in this state. */
public class NodeStateException extends SpeedException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code INVALID_STATE.
     *
     * @param message what happened and what to do
     */
    public NodeStateException(String message) {
        this("INVALID_STATE", message);
    }

    /**
     * For the kinds of this error.
     *
     * @param code the stable code of the kind
     * @param message what happened and what to do
     */
    protected NodeStateException(String code, String message) {
        super(code, message);
    }
}
