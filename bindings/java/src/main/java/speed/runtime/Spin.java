package speed.runtime;

/**
 * Whether to look at the bell for a short while before blocking on it: waking an idle core costs more than the answer.
 * Only while it has been paying. Used by the thread that holds the protocol role.
 */
final class Spin {
    static final long NANOS = 60_000;
    private static final int MOST = 16;

    private int score;

    boolean isWorthIt() {
        return score >= 0;
    }

    /** Something came within the time of a spin, or it did not: misses weigh as much as hits. */
    void learn(boolean paid) {
        score = Math.max(-MOST, Math.min(MOST, score + (paid ? 1 : -1)));
    }
}
