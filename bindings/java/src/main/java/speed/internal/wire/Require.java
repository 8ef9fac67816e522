package speed.internal.wire;

import java.time.Duration;
import java.util.List;
import speed.errors.ConfigurationException;

/** What a program gives to a node's methods, checked before anything is done with it. */
public final class Require {
    /** So long is for ever; a longer time would not fit into nanoseconds. */
    private static final Duration LONGEST = Duration.ofDays(36_500);

    /** How long a call may take if nothing else is said. */
    public static final Duration CALL_TIMEOUT = Duration.ofMillis((long) (Limits.CALL_TIMEOUT_SECONDS * 1000));

    private Require() {}

    /** A time that can be counted with; ConfigurationException for null. */
    public static Duration timeout(Duration timeout) {
        Duration known = value("timeout", timeout);
        if (known.compareTo(LONGEST) > 0) {
            return LONGEST;
        }
        return known.isNegative() ? Duration.ZERO : known;
    }

    /** The same texts in a list; ConfigurationException for null, or one that is null. */
    public static List<String> list(String name, String... values) {
        for (String one : value(name, values)) {
            value("one of " + name, one);
        }
        return List.of(values);
    }

    /** The same value; ConfigurationException for null. */
    public static <T> T value(String name, T value) {
        if (value == null) {
            throw new ConfigurationException(name + " is null: give a value");
        }
        return value;
    }
}
