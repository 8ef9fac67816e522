package speed;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import speed.internal.spi.ReceivedMessage;
import speed.internal.wire.Batch;
import speed.internal.wire.Conversion;
import speed.internal.wire.MessageView;

/**
 * One received message or event. {@link #done} finishes it; after a handler, and by the next receive, that is done
 * for you. Thread-safe.
 */
public final class Message {
    static {
        ReceivedMessage.MESSAGES.install(Message::new);
    }

    private final ReceivedMessage received;
    private final MessageView view;
    private final LargePayload large;
    private Runnable finish;

    private Message(ReceivedMessage received) {
        this.received = received;
        view = received.opened().view();
        large = received.stored() == null ? null : new LargePayload(received.stored());
        finish = received.finish();
    }

    /**
     * The value that the sender gave, decoded anew each time. Bytes beyond 16 MiB that came in segments are a
     * {@link LargePayload}, readable until the message is done.
     *
     * @return see {@link Node} for the types; bytes for a content type that is not known here
     * @throws speed.errors.WireException when it is not what its content type says, or compressed, or encrypted
     */
    public Object payload() {
        if (received.opened().plain() != null) {
            return received.opened().payload();
        }
        return large != null && view.isPlainBytes() ? large : view.payload();
    }

    /**
     * The value that the sender gave, as a type of the program.
     *
     * @param <T> the type
     * @param type as {@link Value#as} takes it
     * @return the value
     * @throws speed.errors.WireException when it is of another kind, or as {@link #payload()} says
     */
    public <T> T payload(Class<T> type) {
        return Conversion.as(payload(), type, "BAD_MESSAGE", "payload");
    }

    /**
     * The values of a batch, else the one payload; decoded anew each time.
     *
     * @return as {@link #payload()} gives them, in the order of their publisher; not to be changed
     * @throws speed.errors.BatchException when a batch lies about its payloads
     * @throws speed.errors.WireException as {@link #payload()}
     */
    public List<Object> payloads() {
        Object payload = payload();
        boolean isBatch = contentType().equals(Batch.TYPE);
        return isBatch ? Batch.decode((byte[]) payload) : Collections.singletonList(payload);
    }

    /**
     * The values of a batch, else the one payload, as a type of the program.
     *
     * @param <T> the type
     * @param type as {@link Value#as} takes it
     * @return the values, in the order of their publisher; not to be changed
     * @throws speed.errors.BatchException when a batch lies about its payloads
     * @throws speed.errors.WireException when one is of another kind, or as {@link #payload()} says
     */
    public <T> List<T> payloads(Class<T> type) {
        List<T> typed = new ArrayList<>();
        for (Object payload : payloads()) {
            typed.add(Conversion.as(payload, type, "BAD_MESSAGE", "payloads[" + typed.size() + "]"));
        }
        return Collections.unmodifiableList(typed);
    }

    /**
     * The payload's bytes: as the publisher had them where this node opened it, else as they travelled.
     *
     * @return a copy
     */
    public byte[] payloadBytes() {
        return received.opened().payloadBytes();
    }

    /**
     * The authenticated name of the sender.
     *
     * @return a node name
     */
    public String source() {
        return received.source();
    }

    /**
     * The fingerprint that the sender proved.
     *
     * @return empty where either node has no identity, and of what was a dead letter
     */
    public String senderIdentity() {
        return received.identity();
    }

    /**
     * The sequence of its envelope, to be compared as unsigned.
     *
     * @return generation and counter
     */
    public long sequence() {
        return received.sequence();
    }

    /**
     * Whether a former process of this name may have handled it already.
     *
     * @return true after a crash, for what was in hand
     */
    public boolean redelivered() {
        return received.redelivered();
    }

    /**
     * How often it has been begun, this time included: more often where its handler failed before, or ended the process.
     *
     * @return from 1
     */
    public int deliveries() {
        return received.deliveries();
    }

    /**
     * The topic.
     *
     * @return {@code message} when the sender gave none
     */
    public String topic() {
        return view.topic();
    }

    /**
     * The id, unique among all messages.
     *
     * @return a UUID
     */
    public String messageId() {
        return view.messageId();
    }

    /**
     * The publisher's part of the topics.
     *
     * @return {@code default} when the sender gave none
     */
    public String namespace() {
        return view.namespace();
    }

    /**
     * Which of several senders is heard first.
     *
     * @return 1 to 10; 5 when the sender said nothing
     */
    public int priority() {
        return view.priority();
    }

    /**
     * When the publisher made it.
     *
     * @return to the millisecond, by its clock
     */
    public Instant publishedAt() {
        return Instant.ofEpochMilli(view.publishedAtMs());
    }

    /**
     * How long after that it is worth something.
     *
     * @return whole seconds, zero for ever
     */
    public Duration timeToLive() {
        return Duration.ofSeconds(view.ttlSeconds());
    }

    /**
     * Media type of the payload.
     *
     * @return such as {@code application/msgpack}
     */
    public String contentType() {
        return view.contentType();
    }

    /**
     * Who the publisher says it is; a {@link #signedBy} key proves it to who trusts that key.
     *
     * @return null if it does not say
     */
    public String publisherId() {
        return view.publisherId();
    }

    /**
     * The team that the publisher names.
     *
     * @return empty if it names none
     */
    public String publisherTeam() {
        return view.security().publisherTeam();
    }

    /**
     * The trusted key whose signature holds.
     *
     * @return a key id; null if there is no signature, or this node looks at none
     */
    public String signedBy() {
        return received.opened().signedBy();
    }

    /**
     * The key with which this node opened the payload.
     *
     * @return a key id; null if it travelled in the clear
     */
    public String openedBy() {
        return received.opened().openedBy();
    }

    /**
     * How sensitive the publisher says it is.
     *
     * @return {@code public}, {@code internal}, {@code confidential} or {@code restricted}; empty if it does not say
     */
    public String classification() {
        return view.security().classification();
    }

    /**
     * Whether it holds personal data: the publisher says so, or a schema of this node does.
     *
     * @return false if neither says it
     */
    public boolean containsPii() {
        return received.opened().containsPii();
    }

    /**
     * W3C trace context.
     *
     * @return null if there is none
     */
    public String traceparent() {
        return view.traceparent();
    }

    /**
     * Ties an answer to its question.
     *
     * @return null if there is none
     */
    public String correlationId() {
        return view.correlationId();
    }

    /**
     * The message that caused this one.
     *
     * @return its id, null if there is none
     */
    public String causalityParent() {
        return view.causalityParent();
    }

    /**
     * W3C baggage.
     *
     * @return maybe empty
     */
    public Map<String, String> baggage() {
        return view.baggage();
    }

    /**
     * Labels for metrics.
     *
     * @return maybe empty
     */
    public Map<String, String> labels() {
        return view.labels();
    }

    /**
     * Extensions, known or not.
     *
     * @return maybe empty
     */
    public Map<String, byte[]> extensions() {
        return view.extensions();
    }

    /** Finishes the message: it is never delivered again. Calling it again does nothing. */
    public void done() {
        Runnable once;
        synchronized (this) {
            once = finish;
            finish = null;
        }
        if (once != null) {
            once.run();
        }
    }

    @Override
    public String toString() {
        return "Message from " + source() + " " + Long.toHexString(sequence());
    }
}
