package speed.errors;

/** No algorithm of the contract has this name (M-24). */
public final class UnknownAlgorithmException extends AlgorithmException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code UNKNOWN_ALGORITHM.
     *
     * @param message what happened and what to do
     */
    public UnknownAlgorithmException(String message) {
        super("UNKNOWN_ALGORITHM", message);
    }
}
