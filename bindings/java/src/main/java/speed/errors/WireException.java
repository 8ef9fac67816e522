package speed.errors;

/** Bytes of a peer break a rule; the reason is a wire code of {@code codes.json}. */
public class WireException extends SpeedException {
    private static final long serialVersionUID = 1L;

    /** The wire code. */
    private final String reason;

    /**
     * An error with the code INTERNAL_ERROR. It has no stack trace: a peer decides how often it happens.
     *
     * @param reason the wire code
     * @param message what is wrong, without payload
     */
    public WireException(String reason, String message) {
        super("INTERNAL_ERROR", reason + ": " + message, false);
        this.reason = reason;
    }

    /**
     * Why the bytes were refused.
     *
     * @return a wire code
     */
    public final String reason() {
        return reason;
    }
}
