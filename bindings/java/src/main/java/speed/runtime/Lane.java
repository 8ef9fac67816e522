package speed.runtime;

import java.util.List;
import speed.core.Token;

/** Where an envelope came from, and how it is finished. */
interface Lane {
    /** The sender. */
    String source();

    /** Commits that these envelopes are done. */
    void finish(List<Token> tokens);

    /** A refused envelope is done; it is committed with the next ones. */
    void drop(Token token);
}
