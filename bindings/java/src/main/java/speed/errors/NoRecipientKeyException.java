package speed.errors;

/** The payload is encrypted for others (M-21). */
public final class NoRecipientKeyException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NO_RECIPIENT_KEY.
     *
     * @param message what happened and what to do
     */
    public NoRecipientKeyException(String message) {
        super("NO_RECIPIENT_KEY", message);
    }
}
