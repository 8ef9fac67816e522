package speed.options;

/** Is told how far a payload has been sent. */
@FunctionalInterface
public interface Progress {
    /**
     * Called after each segment, by the sending thread.
     *
     * @param written bytes of the payload that are in the receiver's lane
     * @param total all of them
     */
    void written(long written, long total);
}
