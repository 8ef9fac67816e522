package speed.errors;

/** The node was closed. */
public final class NodeClosedException extends NodeStateException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NODE_CLOSED.
     *
     * @param message what happened and what to do
     */
    public NodeClosedException(String message) {
        super("NODE_CLOSED", message);
    }
}
