package speed.core;

/**
 * Items that wait to be fetched: in order for each sender, of different senders the highest priority first.
 * Not thread-safe.
 */
public final class SenderHeads<T> {
    private record Waiting<T>(String sender, int priority, T item) {}

    private final ByPriority<Waiting<T>> heads = new ByPriority<>();
    private final SenderOrder<Waiting<T>> behind = new SenderOrder<>();

    /** Adds an item behind those of its sender. */
    public void push(String sender, int priority, T item) {
        Waiting<T> waiting = new Waiting<>(sender, priority, item);
        if (behind.push(sender, waiting)) {
            heads.push(priority, waiting);
        }
    }

    /** The next one, whose sender's following takes its place; NoSuchElementException if there is none. */
    public T pop() {
        Waiting<T> head = heads.pop();
        Waiting<T> following = behind.done(head.sender);
        if (following != null) {
            heads.push(following.priority, following);
        }
        return head.item;
    }

    /** Whether there is none. */
    public boolean isEmpty() {
        return heads.isEmpty();
    }
}
