package speed.errors;

/** There is no such key, or it cannot be reached (M-26). */
public final class KeyUnavailableException extends MessageKeyException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code KEY_UNAVAILABLE.
     *
     * @param message what happened and what to do
     */
    public KeyUnavailableException(String message) {
        super("KEY_UNAVAILABLE", message);
    }
}
