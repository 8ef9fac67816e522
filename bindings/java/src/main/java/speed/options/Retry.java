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
 */
public record Retry(int attempts, Duration backoff, boolean idempotent, double budget) {
    /** Three attempts, a tenth of a second between the first two, and a tenth of an attempt for each success. */
    public static final Retry DEFAULT = new Retry(3, Duration.ofMillis(100), false, 0.1);

    /**
     * Checks all.
     *
     * @param attempts in all, the first one included; 1 or more
     * @param backoff pause before the second attempt; each further one is twice as long, up to 5 s, and varies by a fifth
     * @param idempotent whether the service may run twice for one call: then what may have run is tried again too
     * @param budget how much of an attempt each call that succeeds earns, so that retries never multiply the load of a node
     *     that is in trouble: each that fails takes one of 10 away, and below 5 nothing is tried again; above 0 to 1, or 0 for
     *     no such bound
     * @throws ConfigurationException for numbers out of these ranges
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
    }

    /**
     * Another number of attempts.
     *
     * @param most in all
     * @return such a one
     */
    public Retry withAttempts(int most) {
        return new Retry(most, backoff, idempotent, budget);
    }

    /**
     * Another pause before the second attempt.
     *
     * @param first the pause
     * @return such a one
     */
    public Retry withBackoff(Duration first) {
        return new Retry(attempts, first, idempotent, budget);
    }

    /**
     * For a service that may run twice for one call.
     *
     * @return such a one
     */
    public Retry withIdempotence() {
        return new Retry(attempts, backoff, true, budget);
    }

    /**
     * Another budget.
     *
     * @param earned of an attempt, by each call that succeeds; 0 for no such bound
     * @return such a one
     */
    public Retry withBudget(double earned) {
        return new Retry(attempts, backoff, idempotent, earned);
    }
}
