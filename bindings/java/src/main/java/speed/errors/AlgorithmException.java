package speed.errors;

/** An algorithm cannot be used (M-24). */
public class AlgorithmException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * For the kinds of this error.
     *
     * @param code the stable code of the kind
     * @param message what happened and what to do
     */
    protected AlgorithmException(String code, String message) {
        super(code, message);
    }
}
