package speed.errors;

/** The message is classified above the reader's clearance (M-28). */
public final class NotClearedException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NOT_CLEARED.
     *
     * @param message what happened and what to do
     */
    public NotClearedException(String message) {
        super("NOT_CLEARED", message);
    }
}
