package speed.errors;

/** A setting, argument or environment is wrong; nothing was started or sent. */
public class ConfigurationException extends SpeedException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code CONFIGURATION.
     *
     * @param message what happened and what to do
     */
    public ConfigurationException(String message) {
        this("CONFIGURATION", message);
    }

    /**
     * For the kinds of this error.
     *
     * @param code the stable code of the kind
     * @param message what happened and what to do
     */
    protected ConfigurationException(String code, String message) {
        super(code, message);
    }
}
