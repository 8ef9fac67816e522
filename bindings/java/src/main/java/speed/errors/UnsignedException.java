package speed.errors;

/** A signature is required and there is none (M-18). */
public final class UnsignedException extends MessageException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code UNSIGNED.
     *
     * @param message what happened and what to do
     */
    public UnsignedException(String message) {
        super("UNSIGNED", message);
    }
}
