package speed.internal.engine;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.LongStream;

/** Counters of one node. They never hold payloads or arguments. Thread-safe. */
public final class Stats {
    private final Map<String, LongAdder> counts = new ConcurrentHashMap<>();
    private final Map<String, ServiceStats> services = new ConcurrentHashMap<>();
    private final Few<HandlerStats> handlers = new Few<>(HandlerStats::new);
    private final Few<Traffic> peers = new Few<>(Traffic::new);
    private final Few<LongAdder> refusedSenders = new Few<>(LongAdder::new);
    private final Few<LongAdder> refusedBy = new Few<>(LongAdder::new);

    /** One attempt of a handler. */
    @FunctionalInterface
    public interface Attempt<T, E extends Exception> {
        T run() throws E;
    }

    public void count(String what) {
        count(what, 1);
    }

    public void count(String what, long amount) {
        counts.computeIfAbsent(what, any -> new LongAdder()).add(amount);
    }

    /** Records one request that waited, began and was answered; the error is its code, empty on success. */
    public void served(String service, long queuedNanos, long nanos, String error) {
        of(service).add(queuedNanos, nanos, error);
    }

    /** Records that the deadline of a request for a service that is registered passed, before it began or later. */
    public void timedOut(String service, boolean isQueued) {
        of(service).addTimedOut(isQueued);
    }

    /** Records that a request for a service that is registered was withdrawn. */
    public void withdrawn(String service) {
        of(service).withdrawn.increment();
    }

    /** Records that a service does not allow who called it. */
    public void refused(String service) {
        of(service).refused.increment();
    }

    private ServiceStats of(String service) {
        return services.computeIfAbsent(service, any -> new ServiceStats());
    }

    /**
     * Makes one attempt of a handler, which fails if it throws, and counts it.
     *
     * @param queuedNanos how long the first attempt had waited; below 0 of others
     */
    public <T, E extends Exception> T handled(String handler, long queuedNanos, Attempt<T, E> attempt) throws E {
        long began = System.nanoTime();
        boolean failed = true;
        try {
            T result = attempt.run();
            failed = false;
            return result;
        } finally {
            handlers.of(handler).add(queuedNanos, System.nanoTime() - began, failed);
        }
    }

    /** Records an envelope of a node that may write here, with a payload of so many bytes. */
    public void received(String peer, long bytes) {
        Traffic traffic = peers.of(peer);
        traffic.received.increment();
        traffic.receivedBytes.add(bytes);
    }

    /** Records envelopes that were written, with so many bytes of payload in all. */
    public void sent(String peer, int envelopes, long bytes) {
        Traffic traffic = peers.of(peer);
        traffic.sent.add(envelopes);
        traffic.sentBytes.add(bytes);
    }

    /** Records that an envelope was refused for lack of a grant, or that a service does not allow its caller. */
    public void refusedSender(String sender) {
        refusedSenders.of(sender).increment();
    }

    /** Records that something was not written, since the target does not allow this node. */
    public void refusedBy(String target) {
        refusedBy.of(target).increment();
    }

    void addRows(Map<String, Object> fields) {
        fields.put("refusedSenders", refusedSenders.asMap(LongAdder::sum));
        fields.put("refusedBy", refusedBy.asMap(LongAdder::sum));
        fields.put("handlers", handlers.asMap(HandlerStats::asMap));
        fields.put("peers", peers.asMap(Traffic::asMap));
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
        private long timedOutQueued;
        private final LongAdder withdrawn = new LongAdder();
        private final LongAdder refused = new LongAdder();
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

        synchronized void addTimedOut(boolean isQueued) {
            timedOut++;
            timedOutQueued += isQueued ? 1 : 0;
        }

        synchronized Map<String, Object> asMap() {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("numRequests", requests);
            fields.put("numErrors", errors);
            fields.put("lastError", lastError);
            fields.put("processingSeconds", nanos / 1e9);
            fields.put("averageSeconds", requests == 0 ? 0.0 : nanos / 1e9 / requests);
            fields.put("numTimedOut", timedOut);
            fields.put("numTimedOutQueued", timedOutQueued);
            fields.put("numWithdrawn", withdrawn.sum());
            fields.put("numRefused", refused.sum());
            fields.put("queueTimes", queueTimes.asList());
            fields.put("runTimes", runTimes.asList());
            return fields;
        }
    }

    /** What one handler of messages did. */
    private static final class HandlerStats {
        private long handled;
        private long errors;
        private long nanos;
        private final Times queueTimes = new Times();
        private final Times runTimes = new Times();

        synchronized void add(long queued, long spent, boolean failed) {
            handled++;
            errors += failed ? 1 : 0;
            nanos += spent;
            runTimes.add(spent);
            if (queued >= 0) {
                queueTimes.add(queued);
            }
        }

        synchronized Map<String, Object> asMap() {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("numHandled", handled);
            fields.put("numErrors", errors);
            fields.put("processingSeconds", nanos / 1e9);
            fields.put("queueTimes", queueTimes.asList());
            fields.put("runTimes", runTimes.asList());
            return fields;
        }
    }

    /** What was exchanged with one other node: envelopes, and bytes of their payloads. */
    private static final class Traffic {
        private final LongAdder received = new LongAdder();
        private final LongAdder receivedBytes = new LongAdder();
        private final LongAdder sent = new LongAdder();
        private final LongAdder sentBytes = new LongAdder();

        Map<String, Object> asMap() {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("received", received.sum());
            fields.put("receivedBytes", receivedBytes.sum());
            fields.put("sent", sent.sum());
            fields.put("sentBytes", sentBytes.sum());
            return fields;
        }
    }

    /** Rows by name, of at most 64 names: others choose them, or a program without an end. What comes beyond is under "*". */
    private static final class Few<R> {
        private static final int MOST = 64;
        private static final String OTHERS = "*";

        private final Map<String, R> rows = new ConcurrentHashMap<>();
        private final Supplier<R> made;

        Few(Supplier<R> made) {
            this.made = made;
        }

        R of(String name) {
            R known = rows.get(name);
            return known != null ? known : added(name);
        }

        private synchronized R added(String name) {
            boolean fits = rows.size() < MOST || rows.containsKey(name);
            return rows.computeIfAbsent(fits ? name : OTHERS, any -> made.get());
        }

        Map<String, Object> asMap(Function<R, Object> telling) {
            Map<String, Object> told = new TreeMap<>();
            rows.forEach((name, row) -> told.put(name, telling.apply(row)));
            return told;
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
