package speed.internal.engine.send;

import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.Published;
import speed.errors.ConfigurationException;
import speed.errors.NotAvailableException;
import speed.internal.engine.Context;
import speed.internal.engine.Protected;
import speed.internal.engine.Trace;
import speed.internal.engine.call.Calls;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.engine.remote.Across;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.fs.FileSource;
import speed.internal.segment.Source;
import speed.internal.wire.Content;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Hosts;
import speed.internal.wire.Limits;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageIds;
import speed.internal.wire.Names;
import speed.options.SendOptions;

/** Outgoing messages and events: ids, times and the trace at hand are filled in. Thread-safe. */
public final class Outbox {
    private static final int ID_BYTES = 10;
    /** What goes in one write at most; a large message goes alone. */
    private static final int BATCH_MESSAGES = 64;
    private static final int BATCH_BYTES = 64 << 10;
    /** Bytes that surely fit in one envelope, with everything else of their message. */
    private static final int ONE_ENVELOPE_BYTES = Limits.MAX_PAYLOAD_BYTES - (1 << 16);
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Context context;
    private final Links links;
    private final Calls calls;
    private final Across across;
    private final LargeSender large;
    private final Protected messages;
    private final WorkerPool pool;
    private final Publishing publishing;

    public Outbox(Context context, Links links, Calls calls, Across across, Protected messages, WorkerPool pool) {
        this.pool = pool;
        this.context = context;
        this.links = links;
        this.calls = calls;
        this.across = across;
        this.messages = messages;
        large = new LargeSender(context, links, calls, pool);
        publishing = new Publishing(context, links, large, pool);
    }

    /** Sends one message; returns its id. */
    public String send(String target, Object payload, SendOptions options) {
        MessageDraft draft = draft(options.topic(), options);
        if (Hosts.isRemote(target)) {
            sendAcross(target, draft, payload, options);
        } else if (payload instanceof Path file) {
            try (FileSource source = new FileSource(file)) {
                sendBytes(target, draft, source, options);
            }
        } else if (payload instanceof byte[] bytes && goesInSegments(bytes.length, options)) {
            sendBytes(target, draft, Source.of(bytes), options);
        } else {
            sendWhole(target, messages.encode(draft, payload, options), options);
        }
        return draft.messageId();
    }

    private void sendAcross(String target, MessageDraft draft, Object payload, SendOptions options) {
        if (payload instanceof Path) {
            throw new NotAvailableException("a file does not cross hosts: send its bytes in parts");
        }
        byte[] message = messages.encode(draft, payload, options);
        across.send(target, List.of(message), options.acknowledged(), options.timeout());
        options.progress().written(message.length, message.length);
    }

    /** Bytes that are read while they are sent, in segments if one envelope does not hold them. */
    private void sendBytes(String target, MessageDraft draft, Source bytes, SendOptions options) {
        if (!goesInSegments(bytes.size(), options)) {
            byte[] all = new byte[(int) bytes.size()];
            bytes.read(0, all, 0, all.length);
            sendWhole(target, messages.encode(draft, all, options), options);
            return;
        }
        large.checkSize(target, bytes.size());
        byte[] front = draft.encodeFront((int) bytes.size());
        sendLarge(target, Source.joined(front, bytes), options);
    }

    /** Whether a payload is sent as it is read; NotAvailableException for one that is to be protected. */
    private boolean goesInSegments(long bytes, SendOptions options) {
        if (bytes > Limits.MAX_PAYLOAD_BYTES && messages.protects(options)) {
            throw new NotAvailableException(
                    "what no envelope holds is neither signed, encrypted nor described: send it in parts");
        }
        return bytes > ONE_ENVELOPE_BYTES && !messages.protects(options);
    }

    private void sendLarge(String target, Source message, SendOptions options) {
        if (options.acknowledged()) {
            large.sendAcknowledged(target, EnvelopeType.MESSAGE, message, options);
        } else {
            large.send(target, EnvelopeType.MESSAGE, message, options);
        }
    }

    private void sendWhole(String target, byte[] message, SendOptions options) {
        boolean isMarked = options.unordered() && links.splitter(target) != null;
        if (message.length > Limits.MAX_PAYLOAD_BYTES || isMarked) {
            sendLarge(target, Source.of(message), options);
            return;
        }
        if (options.acknowledged()) {
            calls.sendAcknowledged(target, message, options.timeout());
        } else {
            long deadline = System.nanoTime() + options.timeout().toNanos();
            Load load = Load.of(EnvelopeType.MESSAGE, 0, message, deadline);
            pool.blocking(() -> links.granted(target, deadline).send(load));
        }
        options.progress().written(message.length, message.length);
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
        events.forEach((topic, event) -> published.put(topic, publishing.publish(
                topic, event, options.withTimeout(Duration.ofNanos(deadline - System.nanoTime())))));
        return Collections.unmodifiableMap(published);
    }

    private byte[] event(String topic, Object payload, SendOptions options) {
        return messages.encode(draft(Names.checkTopic(topic), options), payload, options);
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

        private void write() {
            if (Hosts.isRemote(target)) {
                across.send(target, List.copyOf(messages), false, Duration.ofNanos(deadline - System.nanoTime()));
                return;
            }
            Load load = new Load(EnvelopeType.MESSAGE, 0, messages, deadline);
            pool.blocking(() -> links.granted(target, deadline).send(load));
        }

        void send() {
            if (!messages.isEmpty()) {
                write();
                messages.clear();
                bytes = 0;
            }
        }
    }
}
