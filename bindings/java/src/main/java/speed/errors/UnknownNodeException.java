package speed.errors;

/** No live node of this name is in the registry. */
public final class UnknownNodeException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code UNKNOWN_NODE.
     *
     * @param message what happened and what to do
     */
    public UnknownNodeException(String message) {
        super("UNKNOWN_NODE", message);
    }
}
