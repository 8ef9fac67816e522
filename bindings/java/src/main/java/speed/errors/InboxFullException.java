package speed.errors;

/** The receiver's lane stayed full for the whole timeout (L-6). */
public final class InboxFullException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code INBOX_FULL.
     *
     * @param message what happened and what to do
     */
    public InboxFullException(String message) {
        super("INBOX_FULL", message);
    }
}
