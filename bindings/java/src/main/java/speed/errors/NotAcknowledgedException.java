package speed.errors;

/** No acknowledgement came in time; the message may still be handled. */
public final class NotAcknowledgedException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NOT_ACKNOWLEDGED.
     *
     * @param message what happened and what to do
     */
    public NotAcknowledgedException(String message) {
        super("NOT_ACKNOWLEDGED", message);
    }
}
