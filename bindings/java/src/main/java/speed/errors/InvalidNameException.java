package speed.errors;

/** A node, service, topic or pattern name breaks the naming rules (W-1, W-2, A-2). */
public final class InvalidNameException extends ConfigurationException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code INVALID_NAME.
     *
     * @param message what happened and what to do
     */
    public InvalidNameException(String message) {
        super("INVALID_NAME", message);
    }
}
