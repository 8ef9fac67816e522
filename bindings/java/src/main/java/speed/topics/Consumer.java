package speed.topics;

import java.time.Duration;
import java.util.List;
import speed.internal.wire.Require;

/**
 * One consumer of a subscription of a durable topic. What it was given and has not acknowledged comes again, to it or to
 * another one, when it is closed or its process dies. Thread-safe.
 *
 * <pre>{@code
 * try (Consumer consumer = node.topic("orders").consumer("billing")) {
 *     TopicMessage message = consumer.receive(Duration.ofSeconds(5));
 *     if (message != null) {
 *         bill(message.payload());
 *         consumer.acknowledge(message);
 *     }
 * }
 * }</pre>
 *
 * <p>Its methods throw what {@link speed.Caller#call(String, String, java.util.Map)} does, and
 * {@link speed.errors.ApplicationException} with the codes of the host, such as DENIED, DAMAGED, and
 * NOT_WRITTEN, after which to try again is right.
 */
public interface Consumer extends AutoCloseable {
    /**
     * The name of this consumer.
     *
     * @return as given, or one of its own
     */
    String name();

    /**
     * What it is a consumer of.
     *
     * @return the subscription
     */
    String subscription();

    // --- receiving ---

    /**
     * The next message, however long it takes.
     *
     * @return null when this is closed
     * @throws InterruptedException when the waiting thread is interrupted; nothing is lost
     */
    TopicMessage receive() throws InterruptedException;

    /**
     * The next message. Waits while the host is away, and joins again when it is back.
     *
     * @param timeout longest wait
     * @return null when none came in time, or this is closed
     * @throws InterruptedException when the waiting thread is interrupted; nothing is lost
     */
    TopicMessage receive(Duration timeout) throws InterruptedException;

    // --- settling ---

    /**
     * These are handled, and do not come again. After an error, trying again is right. Messages from before a seek, or from
     * before the topic was made anew, count as none.
     *
     * @param messages at least one
     * @return how many were not acknowledged before
     * @throws speed.errors.ConfigurationException for none
     * @throws speed.errors.InvalidArgumentsException for messages of another topic
     */
    long acknowledge(TopicMessage... messages);

    /**
     * All up to this one are handled; only for exclusive and failover.
     *
     * @param message the last one
     * @return how many were not acknowledged before
     * @throws speed.errors.InvalidArgumentsException for a subscription of another type, or a message of another topic
     */
    long acknowledgeUntil(TopicMessage message);

    /**
     * This could not be handled: it comes again after a back-off of the host's. The order is given up.
     *
     * @param message that was received
     * @return 1 if this consumer had it, else 0
     */
    default long reject(TopicMessage message) {
        return reject(List.of(Require.value("message", message)), null);
    }

    /**
     * These could not be handled: they come again. Their order is given up.
     *
     * @param messages that were received
     * @param delay before they come again; null for a back-off of the host's
     * @return how many this consumer had
     */
    long reject(List<TopicMessage> messages, Duration delay);

    // --- its end ---

    /**
     * Leaves; what it was given and is not acknowledged goes to others. Ends whoever waits in {@link #receive()}. Throws
     * nothing: a host that is away knows no consumers when it is back.
     */
    @Override
    void close();
}
