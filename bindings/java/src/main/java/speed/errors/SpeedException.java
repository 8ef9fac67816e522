package speed.errors;

/** Base of all SPEED errors. The code is stable; the message says what happened and what to do. */
public abstract class SpeedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The stable code. */
    private final String code;
    /** What a call that ended with this error has done; null where it is not about a call. */
    private volatile Execution execution;
    /** The node of the call that ended with this error; null where it is not about a call. */
    private volatile String node;
    /** The service of the call that ended with this error; null where it is not about a call. */
    private volatile String service;

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

    /**
     * The node that was called when this error came of it.
     *
     * @return null for an error that is not about a call
     */
    public final String node() {
        return node;
    }

    /**
     * The service that was called when this error came of it.
     *
     * @return null for an error that is not about a call
     */
    public final String service() {
        return service;
    }

    /**
     * Says which call this error ends; only a node calls it, before it throws the error.
     *
     * @param calledNode the node
     * @param calledService its service
     */
    public final void about(String calledNode, String calledService) {
        node = calledNode;
        service = calledService;
    }
}
