package speed;

/** Takes the items that a service gives. One thread at a time writes. */
@FunctionalInterface
public interface ItemWriter {
    /**
     * Gives one item; waits while the reader's window is full. It leaves by itself: no item waits for the next one.
     *
     * @param item a value as {@link Node} describes them, of at most 64 MiB
     * @throws speed.errors.CallWithdrawnException once nobody reads any more
     * @throws speed.errors.UnserialisableException for what is no such value
     * @throws speed.errors.PayloadTooLargeException for one that is larger
     */
    void write(Object item);
}
