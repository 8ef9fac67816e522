package speed.errors;

/** The payload or its data key does not open, or what describes it is malformed (M-20 to M-22). */
public final class EncryptionException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code BAD_ENCRYPTION.
     *
     * @param message what happened and what to do
     */
    public EncryptionException(String message) {
        super("BAD_ENCRYPTION", message);
    }
}
