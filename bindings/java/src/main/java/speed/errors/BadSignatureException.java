package speed.errors;

/** The signature does not verify, or there are several (M-16, M-17). */
public final class BadSignatureException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code BAD_SIGNATURE.
     *
     * @param message what happened and what to do
     */
    public BadSignatureException(String message) {
        super("BAD_SIGNATURE", message);
    }
}
