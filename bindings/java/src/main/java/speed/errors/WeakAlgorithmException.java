package speed.errors;

/** Deprecated, too short, or not allowed by the FIPS mode (M-24). */
public final class WeakAlgorithmException extends AlgorithmException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code WEAK_ALGORITHM.
     *
     * @param message what happened and what to do
     */
    public WeakAlgorithmException(String message) {
        super("WEAK_ALGORITHM", message);
    }
}
