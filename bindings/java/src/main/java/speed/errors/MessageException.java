package speed.errors;

/** A message is not as its rules ask. Neither key, token nor payload is ever in the text (M-26). */
public class MessageException extends SpeedException {
    private static final long serialVersionUID = 1L;

    /**
     * For the kinds of this error.
     *
     * @param code the stable code of the kind
     * @param message what happened and what to do
     */
    protected MessageException(String code, String message) {
        super(code, message);
    }
}
