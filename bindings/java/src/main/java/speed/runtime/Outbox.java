package speed.runtime;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import speed.SendOptions;
import speed.errors.ConfigurationException;
import speed.errors.SpeedException;
import speed.wire.Entry;
import speed.wire.EnvelopeType;
import speed.wire.MessageDraft;
import speed.wire.MessageIds;
import speed.wire.Names;

/** Outgoing messages and events: ids, times and the trace at hand are filled in (M-2, M-5). Thread-safe. */
public final class Outbox {
    private static final int ID_BYTES = 10;
    /** What goes in one write at most; a large message goes alone. */
    private static final int BATCH_MESSAGES = 64;
    private static final int BATCH_BYTES = 64 << 10;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Context context;
    private final Links links;
    private final Calls calls;

    Outbox(Context context, Links links, Calls calls) {
        this.context = context;
        this.links = links;
        this.calls = calls;
    }

    /** Sends one message; returns its id. */
    public String send(String target, Object payload, SendOptions options) {
        MessageDraft draft = draft(options.topic(), options);
        byte[] message = draft.encode(payload);
        if (options.acknowledged()) {
            calls.sendAcknowledged(target, message, options.timeout());
        } else {
            long deadline = System.nanoTime() + options.timeout().toNanos();
            links.granted(target).send(OutgoingLink.Load.of(EnvelopeType.MESSAGE, 0, message, deadline));
        }
        return draft.messageId();
    }

    /** Sends messages in their order, some in one write (L-4). */
    public void sendAll(String target, Iterable<?> payloads, SendOptions options) {
        if (options.acknowledged()) {
            throw new ConfigurationException("sendAll gets no acknowledgements: ask for one with a send behind it");
        }
        Batch batch = new Batch(target, System.nanoTime() + options.timeout().toNanos());
        for (Object payload : payloads) {
            batch.add(draft(options.topic(), options).encode(payload));
        }
        batch.send();
    }

    /** Sends an event to every node that subscribes to it and allows this one; returns how many got it. */
    public int publish(String topic, Object payload, SendOptions options) {
        byte[] message = draft(Names.checkTopic(topic), options).encode(payload);
        long deadline = System.nanoTime() + options.timeout().toNanos();
        int delivered = 0;
        for (Entry entry : context.registry.liveEntries()) {
            if (!entry.name().equals(context.name()) && wants(entry, topic) && entry.grants(context.name())) {
                try {
                    links.granted(entry.name())
                            .send(OutgoingLink.Load.of(EnvelopeType.EVENT, 0, message, deadline));
                    delivered++;
                } catch (SpeedException error) {
                    context.stats.count("events_undelivered");
                }
            }
        }
        return delivered;
    }

    private static boolean wants(Entry entry, String topic) {
        return entry.subscriptions().stream().anyMatch(pattern -> Names.matches(pattern, topic));
    }

    private MessageDraft draft(String topic, SendOptions options) {
        byte[] random = new byte[ID_BYTES];
        RANDOM.nextBytes(random);
        long now = System.currentTimeMillis();
        return new MessageDraft(MessageIds.fresh(now, random), topic, context.options.namespace(), now,
                options.priority(), options.ttlSeconds(), options.correlationId(), options.causalityParent(),
                context.name(), Trace.orCurrent(options.traceparent()), options.labels(), options.baggage(),
                options.extensions());
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
                links.granted(target).send(new OutgoingLink.Load(EnvelopeType.MESSAGE, 0, messages, deadline));
                messages.clear();
                bytes = 0;
            }
        }
    }
}
