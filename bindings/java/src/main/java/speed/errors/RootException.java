package speed.errors;

/** The communication directory cannot be used. */
public final class RootException extends ConfigurationException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code ROOT.
     *
     * @param message what happened and what to do
     */
    public RootException(String message) {
        super("ROOT", message);
    }
}
