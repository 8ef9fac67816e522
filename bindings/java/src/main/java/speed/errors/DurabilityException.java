package speed.errors;

/** The asked durability cannot be given on this filesystem (L-7). */
public final class DurabilityException extends ConfigurationException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code DURABILITY.
     *
     * @param message what happened and what to do
     */
    public DurabilityException(String message) {
        super("DURABILITY", message);
    }
}
