package speed.internal.core;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import speed.internal.wire.Entry;

/** Joins and departures as differences between two readings of the registry. Owned by one thread. */
public final class RegistryView {
    /** A node appeared, or is gone; a new generation is both. The entry is the last one seen. */
    public record Event(Kind kind, Entry entry) {}

    /** What happened to a node. */
    public enum Kind {
        LEFT,
        JOINED
    }

    private TreeMap<String, Entry> entries = new TreeMap<>();

    /** Takes a new reading and returns what happened since the one before, departures first. */
    public List<Event> update(List<Entry> live) {
        TreeMap<String, Entry> after = new TreeMap<>();
        live.forEach(entry -> after.put(entry.name(), entry));
        List<Event> events = new ArrayList<>();
        missing(entries, after).forEach(entry -> events.add(new Event(Kind.LEFT, entry)));
        missing(after, entries).forEach(entry -> events.add(new Event(Kind.JOINED, entry)));
        entries = after;
        return events;
    }

    /** Entries of one reading whose name and generation the other one does not have. */
    private static List<Entry> missing(TreeMap<String, Entry> from, TreeMap<String, Entry> in) {
        return from.values().stream()
                .filter(entry -> {
                    Entry other = in.get(entry.name());
                    return other == null || other.generation() != entry.generation();
                })
                .toList();
    }
}
