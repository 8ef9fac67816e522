package speed.errors;

/** The key is malformed, or not for this use (M-26). */
public final class KeyRefusedException extends MessageKeyException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code KEY_REFUSED.
     *
     * @param message what happened and what to do
     */
    public KeyRefusedException(String message) {
        super("KEY_REFUSED", message);
    }
}
