package speed.errors;

/** A key cannot be used; the text names its id (M-26). */
public class MessageKeyException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * For the kinds of this error.
     *
     * @param code the stable code of the kind
     * @param message what happened and what to do
     */
    protected MessageKeyException(String code, String message) {
        super(code, message);
    }
}
