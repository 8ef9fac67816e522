package speed;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import speed.options.SendOptions;

/**
 * Sends and receives messages and events: what a program takes that needs nothing else of a {@link Node}.
 *
 * <p>All methods are thread-safe and throw {@link speed.errors.NodeClosedException} once the node is closed.
 */
public interface Messenger {
    /**
     * Sends one message. It is in the receiver's lane when this returns, as durable as the node.
     *
     * @param target name of the node
     * @param payload a value, or a protobuf message
     * @return the message's id
     * @throws speed.errors.DeliveryException when it could not be handed over
     */
    default String send(String target, Object payload) {
        return send(target, payload, SendOptions.DEFAULT);
    }

    /**
     * Sends one message. It is in the receiver's lane when this returns, as durable as the node. What no envelope holds
     * (64 MiB) goes in segments; the longest wait then begins anew with each.
     *
     * @param target name of the node
     * @param payload a value, a protobuf message, or a {@link java.nio.file.Path}: the bytes of that file, in little
     *     memory
     * @param options acknowledgement, longest wait, metadata, progress
     * @return the message's id
     * @throws speed.errors.DeliveryException when it could not be handed over
     * @throws speed.errors.MessageException when it cannot be protected as asked
     * @throws speed.errors.NotAcknowledgedException when it may or may not be handled
     * @throws speed.errors.SegmentsLostException when an acknowledgement was asked for and the receiver gave it up
     */
    String send(String target, Object payload, SendOptions options);

    /**
     * Sends many messages in their order, up to 64 in one write and one ring.
     *
     * @param target name of the node
     * @param payloads values, or protobuf messages
     * @throws speed.errors.DeliveryException when one could not be handed over
     */
    default void sendAll(String target, Iterable<?> payloads) {
        sendAll(target, payloads, SendOptions.DEFAULT);
    }

    /**
     * Sends many messages in their order, up to 64 in one write and one ring. One {@code send} behind them can ask for
     * an acknowledgement, since they are handled in order.
     *
     * @param target name of the node
     * @param payloads values, or protobuf messages
     * @param options longest wait for all of them, metadata of each
     * @throws speed.errors.ConfigurationException for options that ask for an acknowledgement; nothing was sent
     * @throws speed.errors.DeliveryException when one could not be handed over: the writes before were accepted, the one
     *     that failed and those after it were not, but for as many envelopes as a StorageException counts
     */
    void sendAll(String target, Iterable<?> payloads, SendOptions options);

    /**
     * Sends many payloads as one message, with one id, one acknowledgement and one handling. The receiver finds them in
     * {@link Message#payloads()}.
     *
     * @param target a node that allows this one
     * @param payloads values, or protobuf messages
     * @return the message id
     * @throws speed.errors.BatchException for more payloads than one batch holds
     */
    default String sendBatch(String target, List<?> payloads) {
        return sendBatch(target, payloads, SendOptions.DEFAULT);
    }

    /**
     * Sends many payloads as one message, with one id, one acknowledgement and one handling. The receiver finds them in
     * {@link Message#payloads()}.
     *
     * @param target a node that allows this one
     * @param payloads values, or protobuf messages
     * @param options as of {@link #send}
     * @return the message id
     * @throws speed.errors.BatchException for more payloads than one batch holds
     */
    String sendBatch(String target, List<?> payloads, SendOptions options);

    /**
     * Handles messages on the workers, in order for each sender. One handler a node.
     *
     * @param handler where it throws, the node's policy says what becomes of the message ({@link Node.Builder#onError})
     * @throws speed.errors.ConfigurationException for none, or a second one
     */
    void onMessage(Consumer<Message> handler);

    /**
     * Handles messages, and events of some topics, many at a time, in order for each sender. All are acknowledged and
     * finished when the handler returned. If it throws, the batch is handed over again after a moment; when the node is
     * closed meanwhile, it waits for the next start. After a crash what was not finished comes again, with the same
     * sequence. With it, the node has no other handler.
     *
     * @param handler takes a batch, or refuses some of it
     * @param topics patterns of the events that it takes too
     * @throws speed.errors.ConfigurationException when the node has a handler
     * @throws speed.errors.InvalidNameException for a pattern that is none
     */
    void onBatch(BatchHandler handler, String... topics);

    /**
     * The next message; finishes the one returned before. What this node's security refuses is skipped, and logged; it was
     * acknowledged when it came.
     *
     * @param timeout longest wait
     * @return null when none came in time
     * @throws InterruptedException when the waiting thread is interrupted; nothing is lost
     */
    Message receive(Duration timeout) throws InterruptedException;

    /**
     * Sends an event to every node that subscribes to its topic and allows this one.
     *
     * @param topic parts of letters and digits, joined by dots
     * @param payload a value, or a protobuf message
     * @return which nodes got it
     */
    default Published publish(String topic, Object payload) {
        return publish(topic, payload, SendOptions.DEFAULT);
    }

    /**
     * Sends an event to every node that subscribes to its topic and allows this one: first to all that have room, then
     * to the others, within one longest wait for all.
     *
     * @param topic parts of letters and digits, joined by dots
     * @param payload a value, or a protobuf message
     * @param options longest wait, metadata
     * @return which nodes got it, and which subscribers did not
     */
    Published publish(String topic, Object payload, SendOptions options);

    /**
     * Publishes many payloads as one event, whose receivers find them in {@link Message#payloads()}.
     *
     * @param topic parts of letters and digits, joined by dots
     * @param payloads values, or protobuf messages
     * @return which nodes got it
     * @throws speed.errors.BatchException for more payloads than one batch holds
     */
    default Published publishBatch(String topic, List<?> payloads) {
        return publishBatch(topic, payloads, SendOptions.DEFAULT);
    }

    /**
     * Publishes many payloads as one event, whose receivers find them in {@link Message#payloads()}.
     *
     * @param topic parts of letters and digits, joined by dots
     * @param payloads values, or protobuf messages
     * @param options longest wait, metadata
     * @return which nodes got it, and which subscribers did not
     * @throws speed.errors.BatchException for more payloads than one batch holds
     */
    Published publishBatch(String topic, List<?> payloads, SendOptions options);

    /**
     * Publishes payloads for several topics: one event for each topic.
     *
     * @param pairs topics and payloads, such as {@code List.of(Map.entry("orders.made", 1), Map.entry("orders.paid", 2))}
     * @return what became of each event by its topic, in the order of their first payloads
     * @throws speed.errors.BatchException for more payloads of one topic than one batch holds
     */
    default Map<String, Published> publishBatch(List<? extends Map.Entry<String, ?>> pairs) {
        return publishBatch(pairs, SendOptions.DEFAULT);
    }

    /**
     * Publishes payloads for several topics: one event for each topic, one after the other. What cannot be encoded, or is no
     * topic, keeps all back.
     *
     * @param pairs topics and payloads
     * @param options longest wait for all of them together, metadata of each
     * @return what became of each event by its topic, in the order of their first payloads
     * @throws speed.errors.BatchException for more payloads of one topic than one batch holds
     */
    Map<String, Published> publishBatch(List<? extends Map.Entry<String, ?>> pairs, SendOptions options);

    /**
     * Handles events; publishers must be allowed as for messages. Published before this returns.
     *
     * @param pattern a topic, {@code orders.*} or {@code *}
     * @param handler called on the workers, in order for each sender
     */
    void subscribe(String pattern, Consumer<Message> handler);

    /**
     * Handles events of which each goes to one node of this node's family ({@code pricing.1} is of {@code pricing.*}) that
     * subscribes so, one after the other.
     *
     * @param pattern a topic, {@code orders.*} or {@code *}
     * @param handler called on the workers, in order for each sender
     * @throws speed.errors.ConfigurationException for a pattern that this node also subscribes to without sharing it
     */
    void subscribeShared(String pattern, Consumer<Message> handler);
}
