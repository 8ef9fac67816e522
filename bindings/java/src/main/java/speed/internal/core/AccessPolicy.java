package speed.internal.core;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.stream.Stream;
import speed.internal.wire.Names;

/**
 * Who may write into a node's inbox, or call a service: grants and denials. Denies everyone at first.
 *
 * <p>Thread-safe: readers take no lock, each change replaces one immutable state.
 */
public final class AccessPolicy {
    private static final int CACHE_LIMIT = 4096;

    private volatile Rules rules = new Rules(Map.of(), Set.of(), List.of());

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
     * @param patterns node names, families such as {@code etl.*}, or {@code name@fingerprint} for one identity
     * @throws speed.errors.InvalidNameException for a pattern that is none of these
     */
    public synchronized void allow(String... patterns) {
        Map<String, Boolean> table = new HashMap<>(rules.table);
        Set<String> identities = new TreeSet<>(rules.identities);
        for (String pattern : patterns) {
            if (Names.namesIdentity(pattern)) {
                table.put(Names.checkNode(Names.nameIn(pattern)), true);
                identities.add(pattern);
            } else {
                table.put(Names.checkGrant(pattern), true);
            }
        }
        rules = new Rules(table, identities, rules.observers);
    }

    /**
     * Grants and publishes; where that fails nothing was granted.
     *
     * @param publish given this policy, with the grants that are then in force
     * @param patterns node names, or families such as {@code etl.*}
     * @throws speed.errors.InvalidNameException for a pattern that is neither
     */
    public synchronized void allow(Consumer<AccessPolicy> publish, String... patterns) {
        Rules before = rules;
        allow(patterns);
        try {
            publish.accept(this);
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
        Set<String> identities = new TreeSet<>(rules.identities);
        identities.removeIf(one -> !Boolean.TRUE.equals(table.get(Names.nameIn(one))));
        rules = new Rules(table, identities, rules.observers);
    }

    /**
     * Lets these look at the node without a grant, and nobody else.
     *
     * @param patterns node names or families, as the owner of the root named them
     */
    public synchronized void observe(List<String> patterns) {
        rules = new Rules(rules.table, rules.identities, List.copyOf(patterns));
    }

    /**
     * Whether a node may look, whatever it is granted: ping this one, and ask for figures.
     *
     * @param name of the node
     * @return true for an observer
     */
    public boolean observes(String name) {
        Rules now = rules;
        return now.observers.stream().anyMatch(pattern -> Names.matches(pattern, name))
                && now.table.entrySet().stream()
                        .noneMatch(rule -> !rule.getValue() && Names.matches(rule.getKey(), name))
                && !now.fingerprints.containsKey(name);
    }

    /**
     * Who may look, as published in the registry entry.
     *
     * @return sorted patterns
     */
    public List<String> observers() {
        return rules.observers;
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
     * Whether a published grant, or a pattern of observers, covers a node, even if a denial excepts it.
     *
     * @param name of the node
     * @return true when it does
     */
    public boolean publishes(String name) {
        Rules now = rules;
        return now.allows(name)
                || Stream.concat(now.allowed.stream(), now.observers.stream())
                        .anyMatch(pattern -> Names.matches(pattern, name));
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
     * The grants that are of one identity, as published in the registry entry.
     *
     * @return sorted
     */
    public List<String> identities() {
        return List.copyOf(rules.identities);
    }

    /**
     * Of the identities that grants of a name are of.
     *
     * @param name of the node
     * @return none where any identity will do
     */
    public Set<String> fingerprints(String name) {
        return rules.fingerprints.getOrDefault(name, Set.of());
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
        private final Set<String> identities;
        private final List<String> observers;
        /** By name. */
        private final Map<String, Set<String>> fingerprints = new HashMap<>();

        private final Map<String, Boolean> decided = new ConcurrentHashMap<>();

        Rules(Map<String, Boolean> table, Set<String> identities, List<String> observers) {
            this.table = table;
            this.observers = observers;
            this.identities = identities;
            for (String one : identities) {
                String fingerprint = one.substring(one.lastIndexOf('@') + 1);
                fingerprints
                        .computeIfAbsent(Names.nameIn(one), name -> new TreeSet<>())
                        .add(fingerprint);
            }
            allowed = table.keySet().stream()
                    .filter(table::get)
                    .filter(one -> !fingerprints.containsKey(one))
                    .sorted()
                    .toList();
            denied = table.keySet().stream()
                    .filter(rule -> !table.get(rule))
                    .filter(this::exceptsSomebody)
                    .sorted()
                    .toList();
        }

        /** Whether a denial excepts somebody from what is published. */
        private boolean exceptsSomebody(String denial) {
            return allowed.stream().anyMatch(grant -> covers(grant, denial))
                    || observers.stream().anyMatch(one -> covers(one, denial) || covers(denial, one));
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
