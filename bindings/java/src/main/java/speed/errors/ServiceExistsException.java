package speed.errors;

/** A service of this name is already registered on this node (S-9). */
public final class ServiceExistsException extends ConfigurationException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code SERVICE_EXISTS.
     *
     * @param message what happened and what to do
     */
    public ServiceExistsException(String message) {
        super("SERVICE_EXISTS", message);
    }
}
