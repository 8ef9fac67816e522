package speed.errors;

/** A compressed payload is not what it says, or too large (M-23). */
public final class CompressionException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code BAD_COMPRESSION.
     *
     * @param message what happened and what to do
     */
    public CompressionException(String message) {
        super("BAD_COMPRESSION", message);
    }
}
