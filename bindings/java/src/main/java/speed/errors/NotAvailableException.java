package speed.errors;

/** It is not available here; the text says what it needs (M-16, M-24). */
public final class NotAvailableException extends AlgorithmException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code NOT_AVAILABLE.
     *
     * @param message what happened and what to do
     */
    public NotAvailableException(String message) {
        super("NOT_AVAILABLE", message);
    }
}
