package speed.errors;

/** The key was used as often as it may be: rotate it (M-26). */
public final class KeyExhaustedException extends MessageKeyException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code KEY_EXHAUSTED.
     *
     * @param message what happened and what to do
     */
    public KeyExhaustedException(String message) {
        super("KEY_EXHAUSTED", message);
    }
}
