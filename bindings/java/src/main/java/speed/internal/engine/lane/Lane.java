package speed.internal.engine.lane;

import java.util.List;
import speed.internal.core.Token;
import speed.internal.fs.Beginning;

/** Where an envelope came from, and how it is finished. */
public interface Lane {
    /** The sender. */
    String source();

    /** Commits that these envelopes are done; false if that could not be written. */
    boolean finish(List<Token> tokens);

    /** Commits that a request begins; one of an idempotent service is finished later. */
    Beginning begin(Token token, boolean isIdempotent);

    /** A request that is for another generation of this node is done: it never begins. */
    void finishForOther(Token token);

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
