package speed.errors;

/** The key file is missing, malformed or not private. */
public final class KeyFileException extends ConfigurationException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code KEY_FILE.
     *
     * @param message what happened and what to do
     */
    public KeyFileException(String message) {
        super("KEY_FILE", message);
    }
}
