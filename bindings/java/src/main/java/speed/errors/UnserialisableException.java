package speed.errors;

/** A value has no representation in the type table (W-15); the message names the path to it. */
public final class UnserialisableException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code UNSERIALISABLE.
     *
     * @param message what happened and what to do
     */
    public UnserialisableException(String message) {
        super("UNSERIALISABLE", message);
    }
}
