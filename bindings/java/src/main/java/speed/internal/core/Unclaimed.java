package speed.internal.core;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Predicate;

/** Messages and events that nothing in the program takes yet, in the order of each sender. Not thread-safe. */
final class Unclaimed<T> {
    private final Map<String, TreeSet<Work<T>>> waiting = new LinkedHashMap<>();

    boolean isEmpty() {
        return waiting.isEmpty();
    }

    void add(Work<T> work) {
        work.state = Work.State.UNCLAIMED;
        waiting.computeIfAbsent(work.sender, any -> new TreeSet<>(Comparator.comparingLong(Work::number))).add(work);
    }

    void remove(Work<T> work) {
        TreeSet<Work<T>> works = waiting.get(work.sender);
        works.remove(work);
        if (works.isEmpty()) {
            waiting.remove(work.sender);
        }
    }

    /** Takes out what the program takes, as it came. */
    List<Work<T>> claim(Predicate<T> takes) {
        List<Work<T>> claimed = new ArrayList<>();
        waiting.values().forEach(works -> works.removeIf(work -> takes.test(work.item) && claimed.add(work)));
        waiting.values().removeIf(TreeSet::isEmpty);
        return claimed;
    }

    /** The next message to fetch: of the sender whose next one is the most urgent, then the oldest; null if none. */
    Work<T> next() {
        Work<T> next = null;
        for (TreeSet<Work<T>> works : waiting.values()) {
            for (Work<T> work : works) {
                if (!work.isEvent) {
                    next = next == null || isBefore(work, next) ? work : next;
                    break;
                }
            }
        }
        return next;
    }

    private boolean isBefore(Work<T> one, Work<T> other) {
        return one.priority != other.priority ? one.priority > other.priority : one.number < other.number;
    }
}
