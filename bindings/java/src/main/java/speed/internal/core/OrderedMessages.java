package speed.internal.core;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Messages that wait for a worker: those of one order (usually a sender) one after the other, of different orders the
 * most urgent first, and now and then the one that has waited longest. Not thread-safe.
 */
final class OrderedMessages<T> {
    /** Every eighth message is the one whose sender has waited longest, whatever its priority. */
    private static final int AGED_TURN = 8;

    private final Map<Object, Deque<Work<T>>> queues = new HashMap<>();
    /** Orders of which a message is being handled, or waits to be tried again. */
    private final Set<Object> busy = new HashSet<>();
    /** Orders whose first message may run, by its priority; the value says since when. */
    private final TreeMap<Integer, LinkedHashMap<Object, Long>> ready = new TreeMap<>();
    private long numbers;
    private long handled;

    boolean isEmpty() {
        return queues.isEmpty();
    }

    /** Whether {@link #next} has something. */
    boolean hasReady() {
        return !ready.isEmpty();
    }

    void add(Work<T> work) {
        queues.computeIfAbsent(work.order, any -> new ArrayDeque<>()).add(work);
        makeReady(work.order);
    }

    /** What is handled next; null if nothing may be. */
    Work<T> next() {
        if (ready.isEmpty()) {
            return null;
        }
        handled++;
        int priority = handled % AGED_TURN != 0 ? ready.lastKey() : longestWaiting();
        Object order = ready.get(priority).keySet().iterator().next();
        unready(order, priority);
        busy.add(order);
        return queues.get(order).poll();
    }

    private int longestWaiting() {
        return ready.entrySet().stream()
                .min(Comparator.comparingLong(one -> one.getValue().values().iterator().next())).orElseThrow().getKey();
    }

    /** The message of an order that was in hand is done with. */
    void letFollow(Object order) {
        busy.remove(order);
        makeReady(order);
    }

    /** One that was in hand is handled again, before what came later. */
    void putFirst(Work<T> work) {
        queues.computeIfAbsent(work.order, any -> new ArrayDeque<>()).addFirst(work);
        letFollow(work.order);
    }

    /** Takes in messages that came earlier than some that wait already. */
    void merge(Object order, List<Work<T>> earlier) {
        Deque<Work<T>> queue = queues.getOrDefault(order, new ArrayDeque<>());
        if (!queue.isEmpty()) {
            unready(order, queue.peek().priority);
        }
        List<Work<T>> all = new ArrayList<>(queue);
        all.addAll(earlier);
        all.sort(Comparator.comparingLong(Work::number));
        queues.put(order, new ArrayDeque<>(all));
        makeReady(order);
    }

    /** Lets the first message of an order be taken, unless one before it is still being handled. */
    private void makeReady(Object order) {
        Deque<Work<T>> queue = queues.get(order);
        if (queue == null || queue.isEmpty()) {
            queues.remove(order);
        } else if (!busy.contains(order)) {
            ready.computeIfAbsent(queue.peek().priority, any -> new LinkedHashMap<>())
                    .putIfAbsent(order, numbers++);
        }
    }

    private void unready(Object order, int priority) {
        LinkedHashMap<Object, Long> orders = ready.get(priority);
        if (orders != null && orders.remove(order) != null && orders.isEmpty()) {
            ready.remove(priority);
        }
    }
}
