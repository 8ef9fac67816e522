package speed.core;

import java.util.Comparator;
import java.util.PriorityQueue;

/** Items that may run: the highest priority first, those of one priority as they came. Not thread-safe. */
public final class ByPriority<T> {
    private record Place<T>(int priority, long number, T item) {}

    private final PriorityQueue<Place<T>> places = new PriorityQueue<>(
            Comparator.<Place<T>>comparingInt(Place::priority).reversed().thenComparingLong(Place::number));
    private long pushed;

    /** Adds an item. */
    public void push(int priority, T item) {
        places.add(new Place<>(priority, pushed++, item));
    }

    /** The next one; NoSuchElementException if there is none. */
    public T pop() {
        return places.remove().item;
    }

    /** Whether there is none. */
    public boolean isEmpty() {
        return places.isEmpty();
    }
}
