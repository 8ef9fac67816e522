package speed.errors;

/** This node could not renew its lease, or another process reclaimed its name. */
public final class LeaseLostException extends RegistrationException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code LEASE_LOST.
     *
     * @param message what happened and what to do
     */
    public LeaseLostException(String message) {
        super("LEASE_LOST", message);
    }
}
