package speed.internal.engine.call;

import speed.errors.SpeedException;

/** Whom one call may be made to, one after the other (S-40). For one thread at a time. */
public interface Members {
    /** The next one; throws the error of the last one where there is no other. */
    String take();

    /** That one did not begin it, perhaps. Throws the error where it is final. */
    void failed(SpeedException failure, String member);

    /** A call of that one ended. */
    void ended(String member);

    /** One node. */
    static Members of(String target) {
        return new Members() {
            @Override
            public String take() {
                return target;
            }

            @Override
            public void failed(SpeedException failure, String member) {
                throw failure;
            }

            @Override
            public void ended(String member) {
                // nobody chooses by how many it has
            }
        };
    }
}
