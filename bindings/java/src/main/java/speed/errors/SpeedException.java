package speed.errors;

/** Base of all SPEED errors. The code is stable; the message says what happened and what to do. */
public abstract class SpeedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The stable code. */
    private final String code;
    /** What a call that ended with this error has done; null where it is not about a call. */
    private volatile Execution execution;

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

    /**
     * Whether the service of the call that ended with this error has run.
     *
     * @return null for an error that is not about a call
     */
    public final Execution execution() {
        return execution;
    }

    /**
     * Says what the call has done that this error ends; only a node calls it, before it throws the error.
     *
     * @param known what is known of it
     */
    public final void about(Execution known) {
        execution = known;
    }
}
