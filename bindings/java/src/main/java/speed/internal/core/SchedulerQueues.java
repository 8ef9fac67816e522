package speed.internal.core;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;

/** Where the work of a {@link Scheduler} waits, by the kind of work. Not thread-safe. */
final class SchedulerQueues {
    private SchedulerQueues() {}

    /**
     * Messages that wait for a worker: those of one order (usually a sender) one after the other, of different orders the
     * most urgent first, and now and then the one that has waited longest. Not thread-safe.
     */
    static final class OrderedMessages<T> {
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

        int size() {
            return queues.values().stream().mapToInt(Deque::size).sum();
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
                    .min(Comparator.comparingLong(
                            one -> one.getValue().values().iterator().next()))
                    .orElseThrow()
                    .getKey();
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

    /** Requests that wait or run: senders take turns, those of one start in their order. Not thread-safe. */
    static final class WaitingRequests<T> {
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

        /** How many wait. */
        int queued() {
            return waiting.values().stream().mapToInt(Set::size).sum();
        }

        /** How many wait or run. */
        int size() {
            return accepted.size();
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

    /** Messages and events that nothing in the program takes yet, in the order of each sender. Not thread-safe. */
    static final class Unclaimed<T> {
        private final Map<String, TreeSet<Work<T>>> waiting = new LinkedHashMap<>();

        boolean isEmpty() {
            return waiting.isEmpty();
        }

        int size() {
            return waiting.values().stream().mapToInt(Set::size).sum();
        }

        void add(Work<T> work) {
            work.state = Work.State.UNCLAIMED;
            waiting.computeIfAbsent(work.sender, any -> new TreeSet<>(Comparator.comparingLong(Work::number)))
                    .add(work);
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

    /** What a scheduler has to do because of the time: deadlines, and messages that are to be tried again. Not thread-safe. */
    static final class Timers<T> {
        /** Deadlines among which those that mean nothing any more are not looked for. */
        private static final int MANY_DEADLINES = 1024;

        private record Timed<T>(long time, Work<T> work) {}

        private final Queue<Timed<T>> deadlines = timed();
        private final Queue<Timed<T>> backOff = timed();
        private int mostDeadlines = MANY_DEADLINES;

        private static <T> Queue<Timed<T>> timed() {
            return new PriorityQueue<>(
                    Comparator.<Timed<T>>comparingLong(Timed::time).thenComparingLong(one -> one.work.number));
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

        int backOff() {
            return backOff.size();
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
}
