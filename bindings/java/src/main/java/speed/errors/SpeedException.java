package speed.errors;

/** Base of all SPEED errors. The code is stable; the message says what happened and what to do. Immutable. */
public abstract class SpeedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The stable code. */
    private final String code;

    SpeedException(String code, String message) {
        super(message);
        this.code = code;
    }

    SpeedException(String code, String message, boolean withStackTrace) {
        super(message, null, false, withStackTrace);
        this.code = code;
    }

    /**
     * The stable code of {@code codes.json}.
     *
     * @return an upper-case word
     */
    public final String code() {
        return code;
    }
}
