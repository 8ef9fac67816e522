package speed.topics;

import java.time.Instant;
import java.util.Map;
import speed.internal.wire.Require;

/** Where a new subscription of a durable topic, or a reader, begins. */
public final class Start {
    /** With what is published from now on. */
    public static final Start LATEST = new Start("latest");
    /** With the oldest message that is kept. */
    public static final Start EARLIEST = new Start("earliest");

    private final Object value;

    private Start(Object value) {
        this.value = value;
    }

    /**
     * With the message at an offset.
     *
     * @param offset of the message
     * @return such a place
     */
    public static Start offset(long offset) {
        return new Start(offset);
    }

    /**
     * With the first message that was recorded at a time, or later.
     *
     * @param time in milliseconds; what is finer is cut off
     * @return such a place
     */
    public static Start at(Instant time) {
        return new Start(Map.of("at_ms", Require.value("time", time).toEpochMilli()));
    }

    /**
     * As the host is asked for it.
     *
     * @return a word, an offset, or a map with the time in milliseconds
     */
    public Object value() {
        return value;
    }
}
