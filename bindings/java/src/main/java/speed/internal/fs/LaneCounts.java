package speed.internal.fs;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What was dropped from a lane or strange in it, by reason. Thread-safe. */
public final class LaneCounts {
    private final Map<String, Integer> counts = new ConcurrentHashMap<>();

    void count(String what) {
        counts.merge(what, 1, Integer::sum);
    }

    /** Adds these counts to others. */
    public void addTo(Map<String, Object> total) {
        counts.forEach((what, number) ->
                total.merge(what, (long) number, (old, more) -> (Long) old + (Long) more));
    }
}
