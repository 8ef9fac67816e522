package speed;

import java.util.Iterator;

/**
 * The items of a call, one after the other, in the order in which the service gave them.
 *
 * <pre>{@code
 * try (Stream<Row> rows = node.stream("billing", "rows", Map.of("month", "2026-11"), Row.class)) {
 *     for (Row row : rows) {
 *         ...
 *     }
 * }
 * }</pre>
 *
 * <p>It ends when the service does. An error comes after all items that went before it, and again each time that the next
 * item is asked for. An interrupt while the next item is awaited withdraws the call. One thread at a time reads;
 * {@link #close} may be called from any.
 *
 * @param <T> what each item is read as
 */
public interface Stream<T> extends Iterator<T>, Iterable<T>, AutoCloseable {
    /**
     * Whether there is another item; waits until that is known.
     *
     * @return false at the end
     * @throws speed.errors.CallTimeoutException when none came within the idle timeout
     * @throws speed.errors.CallException what the service reported
     * @throws speed.errors.DeliveryException when the other node is gone
     */
    @Override
    boolean hasNext();

    /**
     * Itself: the items can be gone through once.
     *
     * @return this
     */
    @Override
    default Iterator<T> iterator() {
        return this;
    }

    /**
     * Reads to the end, and drops what was not read.
     *
     * @return what the service returned beside its items
     */
    Object result();

    /** Reads no more: the call is withdrawn unless it has ended, and the service told. Calling it again does nothing. */
    @Override
    void close();
}
