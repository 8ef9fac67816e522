package speed.internal.core;

/**
 * One request, message or task on its way to a worker; the item is the runtime's own. Only the {@link Scheduler} that
 * made it changes it.
 */
public final class Work<T> {
    /** What a worker can be given. */
    public enum Kind {
        REQUEST,
        MESSAGE,
        TASK;

        /** Tasks take the places of handlers. */
        Kind place() {
            return this == REQUEST ? REQUEST : MESSAGE;
        }
    }

    /** Where it stands. */
    public enum State {
        UNCLAIMED,
        WAITING,
        RUNNING,
        BLOCKED,
        IN_HAND,
        BACK_OFF,
        ENDED
    }

    static final long NEVER = Long.MAX_VALUE;

    public final Kind kind;
    public final T item;
    public final String sender;
    public final boolean isEvent;
    final Object key;
    final long number;
    final int priority;
    final Object order;
    State state = State.WAITING;
    long deadline = NEVER;
    boolean isOverdue;

    private Work(
            Kind kind, T item, long number, String sender, Object key, int priority, Object order, boolean isEvent) {
        this.kind = kind;
        this.item = item;
        this.number = number;
        this.sender = sender;
        this.key = key;
        this.priority = priority;
        this.order = order;
        this.isEvent = isEvent;
    }

    static <T> Work<T> request(T item, long number, String sender, Object key, long deadline) {
        Work<T> work = new Work<>(Kind.REQUEST, item, number, sender, key, 0, null, false);
        work.deadline = deadline;
        return work;
    }

    static <T> Work<T> message(T item, long number, String sender, int priority, Object order, boolean isEvent) {
        return new Work<>(Kind.MESSAGE, item, number, sender, null, priority, order, isEvent);
    }

    static <T> Work<T> task(T item, long number) {
        return new Work<>(Kind.TASK, item, number, "", null, 0, null, false);
    }

    /** Where it stands now; to be read under the lock that covers the scheduler. */
    public State state() {
        return state;
    }

    long number() {
        return number;
    }

    /** Whether its deadline still means something. */
    boolean awaitsItsDeadline() {
        return switch (state) {
            case UNCLAIMED -> true;
            case WAITING, RUNNING, BLOCKED -> kind == Kind.REQUEST && !isOverdue;
            default -> false;
        };
    }
}
