package speed.topics;

import java.time.Duration;

/**
 * Messages of a durable topic from a place on, without a subscription; made by {@code topic.reader}. Not thread-safe: it is
 * for one thread at a time. There is nothing to close.
 */
public interface Reader {
    /**
     * The next message.
     *
     * @param timeout longest wait
     * @return null when none came in time
     * @throws InterruptedException when the waiting thread is interrupted; nothing is lost
     * @throws speed.errors.CallException what the host reported
     * @throws speed.errors.DeliveryException when the host is away
     */
    TopicMessage receive(Duration timeout) throws InterruptedException;
}
