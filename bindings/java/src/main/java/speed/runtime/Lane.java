package speed.runtime;

import java.util.List;
import speed.core.Token;

/** Where an envelope came from, and how it is finished. */
interface Lane {
    /** The sender. */
    String source();

    /** Commits that these envelopes are done; false if that could not be written. */
    boolean finish(List<Token> tokens);

    /** A refused envelope is done; it is committed with the next ones. */
    void drop(Token token);

    /** Whether it was closed or failed: what is finished here is not committed any more. */
    boolean isClosed();

    /** How often a message that came again has been begun, this time included: written before it is. */
    int begin(Token token);

    /** Whether what comes from here was a dead letter until now. */
    default boolean isDeadLetter() {
        return false;
    }
}
