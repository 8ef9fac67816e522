package speed.options;

import java.time.Duration;
import speed.errors.ConfigurationException;
import speed.internal.wire.Require;

/**
 * How often a call is tried, while its timeout lasts: when its node is gone, left or starts, and it was not begun.
 * Immutable: each method returns another one.
 *
 * @param attempts in all, the first one included; 1 or more
 * @param backoff pause before the second attempt; each further one is twice as long, up to 5 s, and varies by a fifth
 * @param idempotent whether the service may run twice for one call: then what may have run is tried again too
 * @param budget how much of an attempt each call that succeeds earns, so that retries never multiply the load of a node
 *     that is in trouble: each that fails takes one of 10 away, and below 5 nothing is tried again; above 0 to 1, or 0 for
 *     no such bound
 * @param hedge of a family of nodes, ask a second one where the first has not answered after this time, and take what comes
 *     first; it costs as much of the budget as an attempt that failed. Only with {@code idempotent}; null for never
 */
public record Retry(int attempts, Duration backoff, boolean idempotent, double budget, Duration hedge) {
    /** Three attempts, a tenth of a second between the first two, and a tenth of an attempt for each success. */
    public static final Retry DEFAULT = new Retry(3, Duration.ofMillis(100), false, 0.1, null);

    /**
     * Checks all.
     *
     * @param attempts in all, the first one included; 1 or more
     * @param backoff pause before the second attempt; each further one is twice as long, up to 5 s, and varies by a fifth
     * @param idempotent whether the service may run twice for one call: then what may have run is tried again too
     * @param budget how much of an attempt each call that succeeds earns, so that retries never multiply the load of a node
     *     that is in trouble: each that fails takes one of 10 away, and below 5 nothing is tried again; above 0 to 1, or 0 for
     *     no such bound
     * @param hedge of a family of nodes, ask a second one where the first has not answered after this time, and take what comes
     *     first; it costs as much of the budget as an attempt that failed. Only with {@code idempotent}; null for never
     * @throws ConfigurationException for numbers out of these ranges, and for a hedge of what may not run twice
     */
    public Retry {
        if (attempts < 1) {
            throw new ConfigurationException("attempts is " + attempts + "; use 1 or more");
        }
        if (Require.value("backoff", backoff).isNegative()) {
            throw new ConfigurationException("backoff is " + backoff + "; use none or more");
        }
        backoff = Require.timeout(backoff);
        if (!(budget >= 0 && budget <= 1)) {
            throw new ConfigurationException("budget is " + budget + "; use a number above 0, up to 1, or 0 for none");
        }
        if (hedge != null) {
            if (hedge.isNegative()) {
                throw new ConfigurationException("hedge is " + hedge + "; use none or more");
            }
            if (!idempotent) {
                throw new ConfigurationException(
                        "a hedge needs withIdempotence(): the service may run twice for one call");
            }
            hedge = Require.timeout(hedge);
        }
    }

    /**
     * Another number of attempts.
     *
     * @param most in all
     * @return such a one
     */
    public Retry withAttempts(int most) {
        return new Retry(most, backoff, idempotent, budget, hedge);
    }

    /**
     * Another pause before the second attempt.
     *
     * @param first the pause
     * @return such a one
     */
    public Retry withBackoff(Duration first) {
        return new Retry(attempts, first, idempotent, budget, hedge);
    }

    /**
     * For a service that may run twice for one call.
     *
     * @return such a one
     */
    public Retry withIdempotence() {
        return new Retry(attempts, backoff, true, budget, hedge);
    }

    /**
     * Another budget.
     *
     * @param earned of an attempt, by each call that succeeds; 0 for no such bound
     * @return such a one
     */
    public Retry withBudget(double earned) {
        return new Retry(attempts, backoff, idempotent, earned, hedge);
    }

    /**
     * A second node of a family, beside the first. Large bytes of the result are arrays then, with and without views.
     *
     * @param after how long the first one may take; after {@link #withIdempotence}
     * @return such a one
     */
    public Retry withHedge(Duration after) {
        return new Retry(attempts, backoff, idempotent, budget, Require.value("hedge", after));
    }
}
