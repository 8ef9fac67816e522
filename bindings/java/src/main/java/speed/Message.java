package speed;

import java.util.Map;
import speed.wire.MessageView;

/**
 * One received message or event. {@link #done} finishes it; after a handler, and by the next receive, that is done
 * for you. Thread-safe.
 */
public final class Message {
    private final MessageView view;
    private final String source;
    private final long sequence;
    private final boolean redelivered;
    private final LargePayload large;
    private Runnable finish;

    /**
     * A message; only a node makes one.
     *
     * @param view its fields
     * @param source authenticated name of the sender
     * @param sequence of its envelope
     * @param redelivered whether a former process of this name may have handled it
     * @param finish commits it
     */
    public Message(MessageView view, String source, long sequence, boolean redelivered, Runnable finish) {
        this(view, null, source, sequence, redelivered, finish);
    }

    /**
     * A message whose payload is not held in memory; only a node makes one.
     *
     * @param view its fields
     * @param large its payload, null if it is held in memory
     * @param source authenticated name of the sender
     * @param sequence of its envelope
     * @param redelivered whether a former process of this name may have handled it
     * @param finish commits it
     */
    public Message(MessageView view, LargePayload large, String source, long sequence, boolean redelivered,
            Runnable finish) {
        this.large = large;
        this.view = view;
        this.source = source;
        this.sequence = sequence;
        this.redelivered = redelivered;
        this.finish = finish;
    }

    /**
     * The value that the sender gave, decoded anew each time. Bytes beyond 16 MiB that came in segments are a
     * {@link LargePayload}, readable until the message is done.
     *
     * @return see {@link Node} for the types; bytes for a content type that is not known here
     * @throws speed.errors.WireException when it is not what its content type says, or compressed, or encrypted
     */
    public Object payload() {
        return large != null && view.isPlainBytes() ? large : view.payload();
    }

    /**
     * The payload as it travelled.
     *
     * @return a copy
     */
    public byte[] payloadBytes() {
        return view.payloadBytes();
    }

    /**
     * The authenticated name of the sender.
     *
     * @return a node name
     */
    public String source() {
        return source;
    }

    /**
     * The sequence of its envelope, to be compared as unsigned.
     *
     * @return generation and counter
     */
    public long sequence() {
        return sequence;
    }

    /**
     * Whether a former process of this name may have handled it already.
     *
     * @return true after a crash, for what was in hand
     */
    public boolean redelivered() {
        return redelivered;
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
     * Media type of the payload.
     *
     * @return such as {@code application/msgpack}
     */
    public String contentType() {
        return view.contentType();
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
        return "Message from " + source + " " + Long.toHexString(sequence);
    }
}
