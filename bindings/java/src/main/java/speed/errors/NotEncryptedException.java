package speed.errors;

/** A confidential or restricted message is not encrypted (M-28). */
public final class NotEncryptedException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NOT_ENCRYPTED.
     *
     * @param message what happened and what to do
     */
    public NotEncryptedException(String message) {
        super("NOT_ENCRYPTED", message);
    }
}
