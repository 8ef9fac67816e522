package speed.internal.core;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.Queue;

/** What a scheduler has to do because of the time: deadlines, and messages that are to be tried again. Not thread-safe. */
final class Timers<T> {
    /** Deadlines among which those that mean nothing any more are not looked for. */
    private static final int MANY_DEADLINES = 1024;

    private record Timed<T>(long time, Work<T> work) {}

    private final Queue<Timed<T>> deadlines = timed();
    private final Queue<Timed<T>> backOff = timed();
    private int mostDeadlines = MANY_DEADLINES;

    private static <T> Queue<Timed<T>> timed() {
        return new PriorityQueue<>(Comparator.<Timed<T>>comparingLong(Timed::time)
                .thenComparingLong(one -> one.work.number));
    }

    /** Of many that ended long before their deadlines nothing is kept. */
    void addDeadline(Work<T> work) {
        deadlines.add(new Timed<>(work.deadline, work));
        if (deadlines.size() > mostDeadlines) {
            deadlines.removeIf(one -> !one.work.awaitsItsDeadline());
            mostDeadlines = MANY_DEADLINES + 2 * deadlines.size();
        }
    }

    void addBackOff(Work<T> work, long at) {
        backOff.add(new Timed<>(at, work));
    }

    boolean hasBackOff() {
        return !backOff.isEmpty();
    }

    /** The next one whose deadline has passed; null if there is none. */
    Work<T> nextExpired(long now) {
        dropEnded();
        return deadlines.isEmpty() || deadlines.peek().time > now ? null : deadlines.remove().work;
    }

    /** The next one that is to be tried again now; null if there is none. */
    Work<T> nextAgain(long now) {
        return backOff.isEmpty() || backOff.peek().time > now ? null : backOff.remove().work;
    }

    /** When the next one is due. */
    long next() {
        dropEnded();
        long deadline = deadlines.isEmpty() ? Work.NEVER : deadlines.peek().time;
        return backOff.isEmpty() ? deadline : Math.min(deadline, backOff.peek().time);
    }

    private void dropEnded() {
        while (!deadlines.isEmpty() && !deadlines.peek().work.awaitsItsDeadline()) {
            deadlines.remove();
        }
    }
}
