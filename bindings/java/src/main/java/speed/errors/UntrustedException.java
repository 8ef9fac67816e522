package speed.errors;

/** The named key is not trusted for this message (M-17). */
public final class UntrustedException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code UNTRUSTED.
     *
     * @param message what happened and what to do
     */
    public UntrustedException(String message) {
        super("UNTRUSTED", message);
    }
}
