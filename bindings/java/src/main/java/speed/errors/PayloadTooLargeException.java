package speed.errors;

/** The payload exceeds max_payload_bytes. */
public final class PayloadTooLargeException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code PAYLOAD_TOO_LARGE.
     *
     * @param message what happened and what to do
     */
    public PayloadTooLargeException(String message) {
        super("PAYLOAD_TOO_LARGE", message);
    }
}
