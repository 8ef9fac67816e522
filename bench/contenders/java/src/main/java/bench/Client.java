package bench;

/** One connected client of a measured library. */
interface Client extends AutoCloseable {
    /** Sends and waits for the answer. */
    byte[] echo(byte[] data);

    /** All {@code count} calls under way at once; returns when the last is answered. */
    void pipeline(byte[] data, int count);

    /** Messages without an answer; returns when the last is handled. */
    void send(byte[] data, int count);

    /** The same, many in one write. */
    default void sendAll(byte[] data, int count) {
        throw new UnsupportedOperationException("sends one by one");
    }

    @Override
    void close();
}
