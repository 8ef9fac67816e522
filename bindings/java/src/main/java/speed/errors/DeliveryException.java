package speed.errors;

/** The envelope was not handed over; the receiver accepted nothing. */
public class DeliveryException extends SpeedException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code DELIVERY.
     *
     * @param message what happened and what to do
     */
    public DeliveryException(String message) {
        this("DELIVERY", message);
    }

    /**
     * For the kinds of this error.
     *
     * @param code the stable code of the kind
     * @param message what happened and what to do
     */
    protected DeliveryException(String code, String message) {
        super(code, message);
    }
}
