package speed.internal.engine;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.LongStream;

/** Counters of one node. They never hold payloads or arguments. Thread-safe. */
public final class Stats {
    private final Map<String, LongAdder> counts = new ConcurrentHashMap<>();
    private final Map<String, ServiceStats> services = new ConcurrentHashMap<>();
    private final PeerCounts refusedSenders = new PeerCounts();
    private final PeerCounts refusedBy = new PeerCounts();

    public void count(String what) {
        count(what, 1);
    }

    public void count(String what, long amount) {
        counts.computeIfAbsent(what, any -> new LongAdder()).add(amount);
    }

    /** Records one request that waited, began and was answered; the error is its code, empty on success. */
    public void served(String service, long queuedNanos, long nanos, String error) {
        services.computeIfAbsent(service, any -> new ServiceStats()).add(queuedNanos, nanos, error);
    }

    /** Records that the deadline of a request for a service that is registered passed. */
    public void timedOut(String service) {
        services.computeIfAbsent(service, any -> new ServiceStats()).addTimedOut();
    }

    /** Records that an envelope was refused for lack of a grant, or that a service does not allow its caller. */
    public void refusedSender(String sender) {
        refusedSenders.add(sender);
    }

    /** Records that something was not written, since the target does not allow this node. */
    public void refusedBy(String target) {
        refusedBy.add(target);
    }

    void addRefusals(Map<String, Object> fields) {
        fields.put("refusedSenders", refusedSenders.asMap());
        fields.put("refusedBy", refusedBy.asMap());
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
        private long timedOut;
        private final Times queueTimes = new Times();
        private final Times runTimes = new Times();

        synchronized void add(long queued, long spent, String error) {
            requests++;
            nanos += spent;
            queueTimes.add(queued);
            runTimes.add(spent);
            if (!error.isEmpty()) {
                errors++;
                lastError = error;
            }
        }

        synchronized void addTimedOut() {
            timedOut++;
        }

        synchronized Map<String, Object> asMap() {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("numRequests", requests);
            fields.put("numErrors", errors);
            fields.put("lastError", lastError);
            fields.put("processingSeconds", nanos / 1e9);
            fields.put("averageSeconds", requests == 0 ? 0.0 : nanos / 1e9 / requests);
            fields.put("numTimedOut", timedOut);
            fields.put("queueTimes", queueTimes.asList());
            fields.put("runTimes", runTimes.asList());
            return fields;
        }
    }

    /** Counts by peer, of at most 64 peers: they choose their names. What comes from others is counted under "*". */
    private static final class PeerCounts {
        private static final int MOST = 64;
        private static final String OTHERS = "*";

        private final Map<String, Long> counts = new TreeMap<>();

        synchronized void add(String peer) {
            boolean isKnown = counts.containsKey(peer);
            counts.merge(isKnown || counts.size() < MOST ? peer : OTHERS, 1L, Long::sum);
        }

        synchronized Map<String, Object> asMap() {
            return new TreeMap<>(counts);
        }
    }

    /**
     * How long things took, as counts of spans: the first counts those below 64 µs, each that follows those of up to twice
     * as long, the last whatever is longer. Not thread-safe.
     */
    static final class Times {
        static final int PLACES = 24;
        private static final int SHORTEST_BITS = 6;

        private final long[] counts = new long[PLACES];

        static int place(long nanos) {
            int bits = Long.SIZE - Long.numberOfLeadingZeros(Math.max(0, nanos) / 1000);
            return Math.min(Math.max(0, bits - SHORTEST_BITS), PLACES - 1);
        }

        void add(long nanos) {
            counts[place(nanos)]++;
        }

        List<Long> asList() {
            return LongStream.of(counts).boxed().toList();
        }
    }
}
