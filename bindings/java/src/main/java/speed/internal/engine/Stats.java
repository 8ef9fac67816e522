package speed.internal.engine;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/** Counters of one node. They never hold payloads or arguments. Thread-safe. */
public final class Stats {
    private final Map<String, LongAdder> counts = new ConcurrentHashMap<>();
    private final Map<String, ServiceStats> services = new ConcurrentHashMap<>();

    public void count(String what) {
        count(what, 1);
    }

    public void count(String what, long amount) {
        counts.computeIfAbsent(what, any -> new LongAdder()).add(amount);
    }

    /** Records one request that began and was answered; the error is its code, empty on success. */
    public void served(String service, long nanos, String error) {
        services.computeIfAbsent(service, any -> new ServiceStats()).add(nanos, error);
    }

    public Map<String, Object> counters() {
        Map<String, Object> snapshot = new TreeMap<>();
        counts.forEach((what, number) -> snapshot.put(what, number.sum()));
        return snapshot;
    }

    /** The statistics of the named services that were ever called. */
    Map<String, Object> services(Iterable<String> names) {
        Map<String, Object> snapshot = new LinkedHashMap<>();
        for (String name : names) {
            if (services.containsKey(name)) {
                snapshot.put(name, services.get(name).asMap());
            }
        }
        return snapshot;
    }

    /** What one service did since it was first called. */
    private static final class ServiceStats {
        private long requests;
        private long errors;
        private long nanos;
        private String lastError = "";

        synchronized void add(long spent, String error) {
            requests++;
            nanos += spent;
            if (!error.isEmpty()) {
                errors++;
                lastError = error;
            }
        }

        synchronized Map<String, Object> asMap() {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("numRequests", requests);
            fields.put("numErrors", errors);
            fields.put("lastError", lastError);
            fields.put("processingSeconds", nanos / 1e9);
            fields.put("averageSeconds", requests == 0 ? 0.0 : nanos / 1e9 / requests);
            return fields;
        }
    }
}
