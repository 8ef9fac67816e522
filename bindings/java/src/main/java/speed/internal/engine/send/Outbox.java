package speed.internal.engine.send;

import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.Published;
import speed.errors.ConfigurationException;
import speed.internal.engine.Context;
import speed.internal.engine.Context.Trace;
import speed.internal.engine.MessageProtection;
import speed.internal.engine.remote.PeerLookup;
import speed.internal.wire.Content;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageDraft.MessageIds;
import speed.internal.wire.Names;
import speed.options.SendOptions;

/** Outgoing messages and events: ids, times and the trace at hand are filled in. Thread-safe. */
public final class Outbox {
    private static final int ID_BYTES = 10;
    /** What goes in one write at most; a large message goes alone. */
    private static final int BATCH_MESSAGES = 64;

    private static final int BATCH_BYTES = 64 << 10;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Context context;
    private final PeerLookup peers;
    private final MessageProtection messages;
    private final Publishing publishing;

    public Outbox(Context context, PeerLookup peers, Publishing publishing, MessageProtection messages) {
        this.context = context;
        this.peers = peers;
        this.publishing = publishing;
        this.messages = messages;
    }

    /** Sends one message; returns its id. */
    public String send(String target, Object payload, SendOptions options) {
        MessageDraft draft = draft(options.topic(), options);
        peers.of(target).send(draft, payload, options);
        return draft.messageId();
    }

    /** Sends messages in their order, some in one write. */
    public void sendAll(String target, Iterable<?> payloads, SendOptions options) {
        if (options.acknowledged()) {
            throw new ConfigurationException("sendAll gets no acknowledgements: ask for one with a send behind it");
        }
        Batch batch = new Batch(target, System.nanoTime() + options.timeout().toNanos());
        for (Object payload : payloads) {
            batch.add(messages.encode(draft(options.topic(), options), payload, options));
        }
        batch.send();
    }

    /** Sends an event to every node that subscribes to it and allows this one. */
    public Published publish(String topic, Object payload, SendOptions options) {
        return publishing.publish(topic, event(topic, payload, options), options);
    }

    /** Sends one event for each topic, within one longest wait for all; what cannot be written keeps all back. */
    public Map<String, Published> publishEach(Map<String, Content> payloads, SendOptions options) {
        long deadline = System.nanoTime() + options.timeout().toNanos();
        Map<String, byte[]> events = new LinkedHashMap<>();
        payloads.forEach((topic, payload) -> events.put(topic, event(topic, payload, options)));
        Map<String, Published> published = new LinkedHashMap<>();
        events.forEach((topic, event) -> published.put(
                topic,
                publishing.publish(topic, event, options.withTimeout(Duration.ofNanos(deadline - System.nanoTime())))));
        return Collections.unmodifiableMap(published);
    }

    private byte[] event(String topic, Object payload, SendOptions options) {
        return messages.encode(draft(Names.checkTopic(topic), options), payload, options);
    }

    private MessageDraft draft(String topic, SendOptions options) {
        byte[] random = new byte[ID_BYTES];
        RANDOM.nextBytes(random);
        long now = System.currentTimeMillis();
        return new MessageDraft(
                MessageIds.fresh(now, random),
                topic,
                context.options.namespace(),
                now,
                context.name(),
                new MessageDraft.Options(
                        options.priority(),
                        options.ttlSeconds(),
                        options.correlationId(),
                        options.causalityParent(),
                        Trace.orCurrent(options.traceparent()),
                        options.labels(),
                        options.baggage(),
                        options.extensions()));
    }

    /** Messages that wait for their one write. */
    private final class Batch {
        private final String target;
        private final long deadline;
        private final List<byte[]> messages = new ArrayList<>(BATCH_MESSAGES);
        private long bytes;

        Batch(String target, long deadline) {
            this.target = target;
            this.deadline = deadline;
        }

        void add(byte[] message) {
            if (bytes + message.length >= BATCH_BYTES) {
                send();
            }
            messages.add(message);
            bytes += message.length;
            if (messages.size() == BATCH_MESSAGES) {
                send();
            }
        }

        void send() {
            if (!messages.isEmpty()) {
                peers.of(target).write(List.copyOf(messages), deadline);
                messages.clear();
                bytes = 0;
            }
        }
    }
}
