package speed.errors;

/** A live node holds this name. */
public final class NameTakenException extends RegistrationException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NAME_TAKEN.
     *
     * @param message what happened and what to do
     */
    public NameTakenException(String message) {
        super("NAME_TAKEN", message);
    }
}
