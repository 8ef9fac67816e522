package speed.internal.core;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import speed.errors.Execution;
import speed.internal.GuardedBy;

/** Which member of a family is called, when another one is, and what is repeated (S-40, S-41). Decides only. */
public final class Family {
    private static final Set<String> TRANSIENT =
            Set.of("UNKNOWN_NODE", "NODE_LEFT", "LEAVING", "REPLACED", "NODE_STARTING");
    private static final Set<String> OF_THE_MEMBER = Set.of("SERVICE_NOT_FOUND", "ACCESS_DENIED");
    private static final Set<String> PERHAPS_RUN = Set.of("NODE_LEFT", "LEAVING", "REPLACED", "TIMEOUT");
    private static final long MOST_BACKOFF_NANOS = 5_000_000_000L;
    private static final int MOST_DOUBLINGS = 32;

    private Family() {}

    /** One process of a node. */
    public record Member(String name, int generation) {}

    /** Whether a name is that of a family. */
    public static boolean isFamily(String target) {
        return target.endsWith(".*");
    }

    /**
     * The one of {@code able}, which is not empty, with the fewest calls under way, of equals the next one by name behind
     * {@code last}; with a key always the same.
     */
    public static String chosen(Collection<String> able, Map<String, Integer> underWay, String last, String key) {
        if (key != null) {
            return Collections.max(able, Comparator.comparing(name -> weight(name, key), Arrays::compareUnsigned));
        }
        Comparator<String> byCalls = Comparator.comparingInt(name -> underWay.getOrDefault(name, 0));
        return Collections.min(
                able,
                byCalls.thenComparing(name -> name.compareTo(last) <= 0).thenComparing(Comparator.naturalOrder()));
    }

    /** By rendezvous: when one of n members comes or goes, one key of n moves, to it or from it. */
    private static byte[] weight(String name, String key) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(name.getBytes(StandardCharsets.UTF_8));
            digest.update((byte) 0);
            return digest.digest(key.getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException absent) {
            throw new IllegalStateException(absent); // every Java has it
        }
    }

    /** Whether another member may be asked: this one began nothing, and another may take it. */
    public static boolean passesOn(String code, Execution execution) {
        return execution == Execution.NOT_BEGUN && (TRANSIENT.contains(code) || OF_THE_MEMBER.contains(code));
    }

    /** Whether the member itself is gone, as far as its error tells. */
    public static boolean isGone(String code) {
        return TRANSIENT.contains(code) && !code.equals("NODE_STARTING");
    }

    /** What differs between the services that members, by name, describe; empty where nothing does. */
    public static String difference(Map<String, List<Map<String, Object>>> described) {
        String first = described.keySet().iterator().next();
        Map<Object, Map<String, Object>> known = byName(described.get(first));
        for (Map.Entry<String, List<Map<String, Object>>> other : described.entrySet()) {
            Map<Object, Map<String, Object>> theirs = byName(other.getValue());
            Set<Object> services = new TreeSet<>(known.keySet());
            services.addAll(theirs.keySet());
            for (Object service : services) {
                String text = serviceDifference(known.get(service), theirs.get(service));
                if (!text.isEmpty()) {
                    return "'" + first + "' and '" + other.getKey() + "' differ: '" + service + "' " + text;
                }
            }
        }
        return "";
    }

    private static Map<Object, Map<String, Object>> byName(List<Map<String, Object>> described) {
        Map<Object, Map<String, Object>> services = new HashMap<>();
        described.forEach(one -> services.put(one.get("name"), one));
        return services;
    }

    private static String serviceDifference(Map<String, Object> one, Map<String, Object> other) {
        if (one == null || other == null) {
            return "is a service of one of them alone";
        }
        if (!Objects.equals(one.get("version"), other.get("version"))) {
            return "has version '" + one.get("version") + "' and '" + other.get("version") + "'";
        }
        return one.equals(other) ? "" : "is not described alike";
    }

    /** Whether another attempt may be made, and may succeed. */
    public static boolean mayRepeat(String code, Execution execution, boolean idempotent) {
        boolean isSafe = execution == Execution.NOT_BEGUN && TRANSIENT.contains(code);
        return isSafe || (idempotent && PERHAPS_RUN.contains(code));
    }

    /** The pause when so many attempts were made, before it is varied. */
    public static long backoffNanos(long firstNanos, int made) {
        double doubled = firstNanos * Math.scalb(1.0, Math.min(Math.max(made, 1) - 1, MOST_DOUBLINGS));
        return (long) Math.min(MOST_BACKOFF_NANOS, doubled);
    }

    /** What calls of one target have earned (as gRFC A6 has it). Thread-safe. */
    public static final class RetryBudget {
        private static final double MOST = 10;

        @GuardedBy("this")
        private double tokens = MOST;

        /** A call has its result. */
        public synchronized void succeeded(double earned) {
            tokens = Math.min(MOST, tokens + earned);
        }

        /** Takes one away; whether there is enough left to try again. */
        public synchronized boolean failed() {
            tokens = Math.max(0, tokens - 1);
            return tokens > MOST / 2;
        }
    }
}
