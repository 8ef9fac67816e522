package speed.internal.core;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import speed.internal.wire.Names;

/**
 * Who may write into a node's inbox, or call a service: grants and denials. Denies everyone at first.
 *
 * <p>Thread-safe: readers take no lock, each change replaces one immutable state.
 */
public final class AccessPolicy {
    private static final int CACHE_LIMIT = 4096;

    private volatile Rules rules = new Rules(Map.of());

    /**
     * A policy with some grants.
     *
     * @param patterns node names, or families such as {@code etl.*}
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     */
    public AccessPolicy(String... patterns) {
        allow(patterns);
    }

    /**
     * Grants; with one invalid pattern nothing is granted.
     *
     * @param patterns node names, or families such as {@code etl.*}
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     */
    public synchronized void allow(String... patterns) {
        Map<String, Boolean> table = new HashMap<>(rules.table);
        for (String pattern : patterns) {
            table.put(Names.checkGrant(pattern), true);
        }
        rules = new Rules(table);
    }

    /**
     * Grants and publishes; where that fails nothing was granted.
     *
     * @param publish given all grants that are then in force, and what is excepted from them
     * @param patterns node names, or families such as {@code etl.*}
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     */
    public synchronized void allow(BiConsumer<List<String>, List<String>> publish, String... patterns) {
        Rules before = rules;
        allow(patterns);
        try {
            publish.accept(allowed(), denied());
        } catch (RuntimeException | Error unpublished) {
            rules = before;
            throw unpublished;
        }
    }

    /**
     * Takes grants back; an exact name stays denied under a granted family.
     *
     * @param patterns node names, or families such as {@code etl.*}
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     */
    public synchronized void deny(String... patterns) {
        Map<String, Boolean> table = new HashMap<>(rules.table);
        for (String pattern : patterns) {
            Names.checkGrant(pattern);
            table.keySet().removeIf(rule -> covers(pattern, rule));
            table.put(pattern, false);
        }
        rules = new Rules(table);
    }

    /**
     * Whether a node has a grant.
     *
     * @param name of the node
     * @return true when the most specific rule that covers the name grants
     */
    public boolean allows(String name) {
        return rules.allows(name);
    }

    /**
     * Whether a published grant covers a node, even if a denial excepts it.
     *
     * @param name of the node
     * @return true when it does
     */
    public boolean publishes(String name) {
        return rules.allows(name) || rules.allowed.stream().anyMatch(pattern -> Names.matches(pattern, name));
    }

    /**
     * The grants in force, as published in the registry entry.
     *
     * @return sorted patterns
     */
    public List<String> allowed() {
        return rules.allowed;
    }

    /**
     * What is excepted from the grants in force, as published in the registry entry.
     *
     * @return sorted patterns
     */
    public List<String> denied() {
        return rules.denied;
    }

    private static boolean covers(String pattern, String rule) {
        boolean inside = pattern.endsWith(".*") && rule.startsWith(pattern.substring(0, pattern.length() - 1));
        return pattern.equals(rule) || inside;
    }

    /** One immutable state, with its own decisions. */
    private static final class Rules {
        private final Map<String, Boolean> table;
        private final List<String> allowed;
        private final List<String> denied;
        private final Map<String, Boolean> decided = new ConcurrentHashMap<>();

        Rules(Map<String, Boolean> table) {
            this.table = table;
            allowed = table.keySet().stream().filter(table::get).sorted().toList();
            denied = table.keySet().stream()
                    .filter(rule -> !table.get(rule))
                    .filter(rule -> allowed.stream().anyMatch(grant -> covers(grant, rule)))
                    .sorted()
                    .toList();
        }

        boolean allows(String name) {
            Boolean known = decided.get(name);
            if (known != null) {
                return known;
            }
            if (decided.size() >= CACHE_LIMIT) {
                decided.clear(); // names come from others: they must not fill our memory
            }
            boolean decision = decide(name);
            decided.put(name, decision);
            return decision;
        }

        /** The exact name first, then the longest family: etl.eu.1, etl.eu.*, etl.*. */
        private boolean decide(String name) {
            Boolean rule = table.get(name);
            for (int end = name.lastIndexOf('.'); rule == null && end > 0; end = name.lastIndexOf('.', end - 1)) {
                rule = table.get(name.substring(0, end) + ".*");
            }
            return Boolean.TRUE.equals(rule);
        }
    }
}
