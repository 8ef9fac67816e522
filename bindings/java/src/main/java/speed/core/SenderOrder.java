package speed.core;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;

/**
 * Serial queues, one per sender: items of one sender run one after another, senders side by side.
 * Thread-safe.
 */
public final class SenderOrder<T> {
    /** A sender is present exactly while one of its items runs; the queue holds those behind it. */
    private final Map<String, Queue<T>> waiting = new HashMap<>();

    /** True: run the item now and call {@link #done} afterwards. False: it waits and done will hand it out. */
    public synchronized boolean push(String sender, T item) {
        Queue<T> queue = waiting.putIfAbsent(sender, new ArrayDeque<>());
        if (queue == null) {
            return true;
        }
        queue.add(item);
        return false;
    }

    /** The running item ended: returns the sender's next one to run, null when none waits. */
    public synchronized T done(String sender) {
        T next = waiting.get(sender).poll();
        if (next == null) {
            waiting.remove(sender);
        }
        return next;
    }
}
