package speed.internal.core;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import speed.internal.core.SchedulerQueues.OrderedMessages;
import speed.internal.core.SchedulerQueues.Timers;
import speed.internal.core.SchedulerQueues.Unclaimed;
import speed.internal.core.SchedulerQueues.WaitingRequests;
import speed.internal.wire.Limits;

/**
 * Who runs what next in a node: states, events and decisions, without threads and without a clock
 * ({@code registry_spec/scheduling.md}). A node of {@code workers} runs at most so many services at once, and at most
 * so many handlers, and one more in all: neither kind can take every worker from the other.
 *
 * <p>Times are nanoseconds of any clock that only the runtime reads. Not thread-safe: the pool's lock covers every
 * method.
 */
public final class Scheduler<T> {
    /** When there is nothing to do because of the time. */
    public static final long NEVER = Work.NEVER;

    private static final long UNCLAIMED_EVENT_NANOS = (long) (Limits.UNCLAIMED_EVENT_SECONDS * 1e9);

    /** Where the node stands. */
    public enum Life {
        OPEN,
        LEAVING,
        CLOSED
    }

    /** What became of a request that arrived. */
    public enum Admission {
        WAITING,
        DUPLICATE,
        LEAVING
    }

    /**
     * A request that arrived.
     *
     * @param work the one that waits; with DUPLICATE the one that came before, with LEAVING null
     */
    public record Admitted<T>(Admission admission, Work<T> work) {}

    /** What a look at the time found: requests over their deadline, and events that nothing took. */
    public record Overdue<T>(List<Work<T>> waiting, List<Work<T>> running, List<Work<T>> unclaimed) {}

    private final int workers;
    private final Map<Work.Kind, Integer> running = new EnumMap<>(Work.Kind.class);
    private final List<Work.Kind> rotation = new ArrayList<>(List.of(Work.Kind.values()));
    private final WaitingRequests<T> requests = new WaitingRequests<>();
    private final OrderedMessages<T> messages = new OrderedMessages<>();
    private final Unclaimed<T> unclaimed = new Unclaimed<>();
    private final Deque<Work<T>> tasks = new ArrayDeque<>();
    private final Timers<T> timers = new Timers<>();
    private Life life = Life.OPEN;
    private long numbers;
    private int blocked;

    public Scheduler(int workers) {
        this.workers = workers;
        running.put(Work.Kind.REQUEST, 0);
        running.put(Work.Kind.MESSAGE, 0);
    }

    public Life life() {
        return life;
    }

    // --- arrivals ---

    /** A request whose sender's grant and head were checked. */
    public Admitted<T> request(String sender, Object key, T item, long deadline) {
        Work<T> before = requests.get(sender, key);
        if (before != null) {
            return new Admitted<>(Admission.DUPLICATE, before);
        }
        if (life != Life.OPEN) {
            return new Admitted<>(Admission.LEAVING, null);
        }
        Work<T> work = Work.request(item, ++numbers, sender, key, deadline);
        requests.add(work);
        timers.addDeadline(work);
        return new Admitted<>(Admission.WAITING, work);
    }

    /** One that waits or runs; null if there is none. */
    public Work<T> accepted(String sender, Object key) {
        return requests.get(sender, key);
    }

    /**
     * A message or event; null once the node leaves: it stays in its lane, for the next start. Those of one order are
     * handled one after the other.
     *
     * @param order the sender, unless others need not wait for it
     * @param claimed whether something in the program takes it; else it waits until something does
     */
    public Work<T> message(
            String sender, T item, long now, int priority, Object order, boolean isEvent, boolean claimed) {
        if (life != Life.OPEN) {
            return null;
        }
        Work<T> work = Work.message(item, ++numbers, sender, priority, order, isEvent);
        if (claimed) {
            messages.add(work);
            return work;
        }
        unclaimed.add(work);
        if (isEvent) {
            work.deadline = now + UNCLAIMED_EVENT_NANOS;
            timers.addDeadline(work);
        }
        return work;
    }

    /** Something short of the node's own, or a callback of the program. */
    public Work<T> task(T item) {
        Work<T> work = Work.task(item, ++numbers);
        tasks.add(work);
        return work;
    }

    // --- workers ---

    /** What a free worker does next; null if there is nothing, or no place for it. */
    public Work<T> take(long now) {
        endBackOff(now);
        if (life == Life.CLOSED || atWork() > workers) {
            return null;
        }
        for (Work.Kind kind : rotation) {
            Work<T> work = running.get(kind.place()) < workers ? nextOf(kind) : null;
            if (work != null) {
                rotation.remove(kind);
                rotation.add(kind);
                begin(work);
                return work;
            }
        }
        return null;
    }

    private Work<T> nextOf(Work.Kind kind) {
        return switch (kind) {
            case REQUEST -> requests.next();
            case MESSAGE -> messages.next();
            case TASK -> tasks.poll();
        };
    }

    private int atWork() {
        return running.get(Work.Kind.REQUEST) + running.get(Work.Kind.MESSAGE);
    }

    private void begin(Work<T> work) {
        running.merge(work.kind.place(), 1, Integer::sum);
        work.state = Work.State.RUNNING;
    }

    /** Whether a free worker might find something. */
    public boolean hasReady() {
        return life != Life.CLOSED
                && atWork() <= workers
                && (!requests.isEmpty() && running.get(Work.Kind.REQUEST) < workers
                        || (!tasks.isEmpty() || messages.hasReady()) && running.get(Work.Kind.MESSAGE) < workers);
    }

    /** A worker, or the program, has finished with a work. */
    public void done(Work<T> work) {
        boolean wasHandled = work.kind == Work.Kind.MESSAGE && work.state != Work.State.IN_HAND;
        free(work);
        work.state = Work.State.ENDED;
        if (work.kind == Work.Kind.REQUEST) {
            requests.forget(work);
        } else if (wasHandled) {
            messages.letFollow(work.order);
        }
    }

    /** Handling failed: it is tried once more; what comes after it in its order waits. */
    public void again(Work<T> work, long at) {
        free(work);
        work.state = Work.State.BACK_OFF;
        timers.addBackOff(work, at);
    }

    /** Its worker waits for another node: its place is given to others. False if too many wait already. */
    public boolean blocked(Work<T> work) {
        if (work.state != Work.State.RUNNING || blocked >= Limits.MAX_BLOCKED_WORKERS) {
            return false;
        }
        free(work);
        blocked++;
        work.state = Work.State.BLOCKED;
        return true;
    }

    /** Its worker goes on, at once: for a while there may be more at work than there are places. */
    public void resumed(Work<T> work) {
        if (work.state == Work.State.BLOCKED) {
            blocked--;
            begin(work);
        }
    }

    private void free(Work<T> work) {
        if (work.state == Work.State.RUNNING) {
            running.merge(work.kind.place(), -1, Integer::sum);
        } else if (work.state == Work.State.BLOCKED) {
            blocked--;
        }
    }

    /** Lets what was to be tried again at a time be taken; whether there was any. */
    public boolean endBackOff(long now) {
        boolean any = false;
        for (Work<T> work = timers.nextAgain(now); work != null; work = timers.nextAgain(now)) {
            any = true;
            work.state = Work.State.WAITING;
            messages.putFirst(work);
        }
        return any;
    }

    // --- what nothing takes yet ---

    /** The program said what it takes: what waited for that is handled before what came later. Returns how many. */
    public int claim(Predicate<T> takes) {
        List<Work<T>> claimed = unclaimed.claim(takes);
        Map<Object, List<Work<T>>> orders = new LinkedHashMap<>();
        for (Work<T> work : claimed) {
            work.state = Work.State.WAITING;
            orders.computeIfAbsent(work.order, any -> new ArrayList<>()).add(work);
        }
        orders.forEach(messages::merge);
        return claimed.size();
    }

    /** The next message for the program to fetch; null if there is none. */
    public Work<T> receive() {
        Work<T> work = unclaimed.next();
        if (work != null) {
            unclaimed.remove(work);
            work.state = Work.State.IN_HAND;
        }
        return work;
    }

    /** The program did not take it after all: it is fetched next, or handled. */
    public void putBack(Work<T> work) {
        unclaimed.add(work);
    }

    // --- withdrawal, departure, time ---

    /** Senders of the requests that wait or run. */
    public List<String> callers() {
        return requests.senders();
    }

    /** Whether a request waits or runs. */
    public boolean has(String sender, Object key) {
        return requests.get(sender, key) != null;
    }

    /** The caller withdrew a request. One that waited is ENDED and never begins; one that runs stays as it is. */
    public Work<T> withdraw(String sender, Object key) {
        Work<T> work = requests.get(sender, key);
        if (work != null && work.state == Work.State.WAITING) {
            requests.drop(work);
        }
        return work;
    }

    /** The caller left, died or was replaced: those of its requests, the waiting ones ENDED. What it sent otherwise stays. */
    public List<Work<T>> forget(String sender, Predicate<T> which) {
        List<Work<T>> works = requests.of(sender).stream()
                .filter(work -> which.test(work.item))
                .toList();
        works.stream().filter(work -> work.state == Work.State.WAITING).forEach(requests::drop);
        return works;
    }

    /** All requests that wait or run. */
    public List<Work<T>> requests() {
        return requests.accepted();
    }

    /** Requests over their deadline, each told once, and events that nothing took in time. */
    public Overdue<T> expire(long now) {
        Overdue<T> found = new Overdue<>(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        for (Work<T> work = timers.nextExpired(now); work != null; work = timers.nextExpired(now)) {
            if (work.state == Work.State.UNCLAIMED) {
                unclaimed.remove(work);
                work.state = Work.State.ENDED;
                found.unclaimed.add(work);
            } else {
                expire(work, found);
            }
        }
        return found;
    }

    private void expire(Work<T> work, Overdue<T> found) {
        if (work.state == Work.State.WAITING) {
            requests.drop(work);
            found.waiting.add(work);
        } else {
            work.isOverdue = true;
            found.running.add(work);
        }
    }

    /** When {@code expire} or {@code take} next has something to do because of the time. */
    public long nextTime() {
        return timers.next();
    }

    // --- the end ---

    /** No further request is accepted; what was accepted is worked off. */
    public void leave() {
        if (life == Life.OPEN) {
            life = Life.LEAVING;
        }
    }

    /** Whether nothing waits for a worker and nothing is at work. */
    public boolean isSettled() {
        boolean waits = !requests.isEmpty() || !tasks.isEmpty() || !messages.isEmpty() || timers.hasBackOff();
        return !waits && blocked == 0 && atWork() == 0;
    }

    /** The same for who asks from inside of one work, which does not wait for itself; nor does what comes behind it. */
    public boolean isSettledBut(Work<T> own) {
        boolean atWorkItself = own.state == Work.State.RUNNING || own.state == Work.State.BLOCKED;
        return atWork() + blocked == (atWorkItself ? 1 : 0) && !hasReady() && !timers.hasBackOff();
    }

    /** Adds what waits and what runs, as STATS tells it: requests, and messages that nobody handles yet. */
    public void addLoad(Map<String, Object> fields) {
        int queued = requests.queued();
        fields.put("queuedRequests", queued);
        fields.put("runningRequests", requests.size() - queued);
        fields.put("queuedMessages", messages.size() + unclaimed.size() + timers.backOff());
    }

    /** How many wait for another node in their work. */
    public int blockedWorkers() {
        return blocked;
    }

    /** Nothing is taken any more; the requests that still waited, ENDED, for their callers to be told. */
    public List<Work<T>> close() {
        life = Life.CLOSED;
        List<Work<T>> waiting = requests.all();
        waiting.forEach(requests::drop);
        return waiting;
    }
}
