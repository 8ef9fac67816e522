package speed.internal.core;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Requests that wait or run: senders take turns, those of one start in their order. Not thread-safe. */
final class WaitingRequests<T> {
    private record Id(String sender, Object key) {}

    private final Map<Id, Work<T>> accepted = new HashMap<>();
    /** What waits, by sender; the first sender is served next. */
    private final LinkedHashMap<String, Set<Work<T>>> waiting = new LinkedHashMap<>();

    boolean isEmpty() {
        return waiting.isEmpty();
    }

    /** One that waits or runs; null if there is none. */
    Work<T> get(String sender, Object key) {
        return accepted.get(new Id(sender, key));
    }

    void add(Work<T> work) {
        accepted.put(new Id(work.sender, work.key), work);
        waiting.computeIfAbsent(work.sender, any -> new LinkedHashSet<>()).add(work);
    }

    /** The first of the sender whose turn it is; its next one waits until all others had theirs. Null if none waits. */
    Work<T> next() {
        if (waiting.isEmpty()) {
            return null;
        }
        String sender = waiting.keySet().iterator().next();
        Set<Work<T>> works = waiting.remove(sender);
        Iterator<Work<T>> first = works.iterator();
        Work<T> work = first.next();
        first.remove();
        if (!works.isEmpty()) {
            waiting.put(sender, works);
        }
        return work;
    }

    /** It was answered: its id may come again. */
    void forget(Work<T> work) {
        accepted.remove(new Id(work.sender, work.key), work);
    }

    /** It never begins. */
    void drop(Work<T> work) {
        work.state = Work.State.ENDED;
        forget(work);
        Set<Work<T>> works = waiting.get(work.sender);
        works.remove(work);
        if (works.isEmpty()) {
            waiting.remove(work.sender);
        }
    }

    /** All of a sender that wait or run, as they came. */
    List<Work<T>> of(String sender) {
        List<Work<T>> works = new ArrayList<>();
        accepted.values().forEach(work -> {
            if (work.sender.equals(sender)) {
                works.add(work);
            }
        });
        works.sort(java.util.Comparator.comparingLong(Work::number));
        return works;
    }

    List<Work<T>> accepted() {
        return List.copyOf(accepted.values());
    }

    /** Senders of all that wait or run. */
    List<String> senders() {
        return accepted.keySet().stream().map(Id::sender).distinct().toList();
    }

    /** All that wait, as their senders' turns come. */
    List<Work<T>> all() {
        List<Work<T>> works = new ArrayList<>();
        waiting.values().forEach(works::addAll);
        return works;
    }
}
