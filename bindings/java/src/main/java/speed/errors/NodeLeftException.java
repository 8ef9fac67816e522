package speed.errors;

/** The node left or died before it answered (S-7). */
public final class NodeLeftException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NODE_LEFT.
     *
     * @param message what happened and what to do
     */
    public NodeLeftException(String message) {
        super("NODE_LEFT", message);
    }
}
