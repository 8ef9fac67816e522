package speed.internal.core;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import speed.internal.wire.Limits;

/**
 * What must not overtake the requests of its sender that are still being put together: withdrawals and questions name
 * requests, and are looked at once those before them are known. Not thread-safe: guarded by the lock of its owner.
 */
public final class RequestBarrier {
    private record Waiting(Set<Object> before, Runnable task) {}

    /** Requests that are being put together, by sender. */
    private final Map<String, Set<Object>> open = new HashMap<>();

    private final Map<String, List<Waiting>> waiting = new HashMap<>();

    /** A request of {@code sender} is put together from now on, until {@link #end} is told of what this returns. */
    public Object begin(String sender) {
        Object ticket = new Object();
        open.computeIfAbsent(sender, none -> new HashSet<>()).add(ticket);
        return ticket;
    }

    /** Whether {@code task} waits; if not, it is to be done at once: nothing is before it, or too much waits already. */
    public boolean await(String sender, Runnable task) {
        Set<Object> before = open.get(sender);
        if (before == null) {
            return false;
        }
        List<Waiting> those = waiting.computeIfAbsent(sender, none -> new ArrayList<>());
        return those.size() < Limits.MAX_DEFERRED_CONTROLS && those.add(new Waiting(new HashSet<>(before), task));
    }

    /** A request is known now, or given up; returns what waited for it alone, in its order. */
    public List<Runnable> end(String sender, Object ticket) {
        open.get(sender).remove(ticket);
        if (open.get(sender).isEmpty()) {
            open.remove(sender);
        }
        List<Runnable> due = new ArrayList<>();
        List<Waiting> those = waiting.getOrDefault(sender, List.of());
        for (Iterator<Waiting> each = those.iterator(); each.hasNext(); ) {
            Waiting one = each.next();
            one.before.remove(ticket);
            if (one.before.isEmpty()) {
                due.add(one.task);
                each.remove();
            }
        }
        if (those.isEmpty()) {
            waiting.remove(sender);
        }
        return due;
    }
}
