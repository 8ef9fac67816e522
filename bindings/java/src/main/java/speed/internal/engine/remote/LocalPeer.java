package speed.internal.engine.remote;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import speed.errors.NotAvailableException;
import speed.internal.engine.MessageProtection;
import speed.internal.engine.call.Calls;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.fs.FileSource;
import speed.internal.segment.Source;
import speed.internal.segment.Splitter;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.internal.wire.MessageDraft;
import speed.options.SendOptions;

/** A node of this root. Immutable. */
record LocalPeer(Links links, Calls calls, LargeSender large, MessageProtection messages, WorkerPool pool, String name)
        implements Peer {
    /** Bytes that surely fit in one envelope, with everything else of their message. */
    private static final int ONE_ENVELOPE_BYTES = Limits.MAX_PAYLOAD_BYTES - (1 << 16);

    @Override
    public Object call(String service, Map<String, Object> arguments, Duration timeout, String trace, boolean views) {
        return calls.call(name, service, arguments, timeout, trace, views);
    }

    @Override
    public CompletableFuture<Object> submit(
            String service, Map<String, Object> arguments, Duration timeout, String trace) {
        return calls.submit(name, service, arguments, timeout, trace);
    }

    @Override
    public void heartbeat() {
        calls.ask(name, EnvelopeType.HEARTBEAT, Map.of(), QUESTION_TIMEOUT);
    }

    @Override
    public Object about(String operation) {
        return calls.ask(name, EnvelopeType.DISCOVERY, Map.of("op", operation), QUESTION_TIMEOUT);
    }

    @Override
    public Object serviceNames() {
        return discover("SERVICES").get("services");
    }

    @Override
    public Object described() {
        return discover("DESCRIBE").get("services");
    }

    @Override
    public void segment(int size, double parityRate) {
        links.cut(name, size == 0 ? null : Splitter.ofLink(size, parityRate));
    }

    // --- messages ---

    @Override
    public void write(List<byte[]> encoded, long deadlineNanos) {
        Load load = new Load(EnvelopeType.MESSAGE, 0, encoded, deadlineNanos);
        pool.blocking(() -> links.granted(name, deadlineNanos).send(load));
    }

    @Override
    public void send(MessageDraft draft, Object payload, SendOptions options) {
        if (payload instanceof Path file) {
            try (FileSource source = new FileSource(file)) {
                sendBytes(draft, source, options);
            }
        } else if (payload instanceof byte[] bytes && goesInSegments(bytes.length, options)) {
            sendBytes(draft, Source.of(bytes), options);
        } else {
            sendWhole(messages.encode(draft, payload, options), options);
        }
    }

    /** Bytes that are read while they are sent, in segments if one envelope does not hold them. */
    private void sendBytes(MessageDraft draft, Source bytes, SendOptions options) {
        if (!goesInSegments(bytes.size(), options)) {
            byte[] all = new byte[(int) bytes.size()];
            bytes.read(0, all, 0, all.length);
            sendWhole(messages.encode(draft, all, options), options);
            return;
        }
        large.checkSize(name, bytes.size());
        byte[] front = draft.encodeFront((int) bytes.size());
        sendLarge(Source.joined(front, bytes), options);
    }

    /** Whether a payload is sent as it is read; NotAvailableException for one that is to be protected. */
    private boolean goesInSegments(long bytes, SendOptions options) {
        if (bytes > Limits.MAX_PAYLOAD_BYTES && messages.protects(options)) {
            throw new NotAvailableException(
                    "what no envelope holds is neither signed, encrypted nor described: send it in parts");
        }
        return bytes > ONE_ENVELOPE_BYTES && !messages.protects(options);
    }

    private void sendLarge(Source message, SendOptions options) {
        if (options.acknowledged()) {
            large.sendAcknowledged(name, EnvelopeType.MESSAGE, message, options);
        } else {
            large.send(name, EnvelopeType.MESSAGE, message, options);
        }
    }

    private void sendWhole(byte[] message, SendOptions options) {
        boolean isMarked = options.unordered() && links.splitter(name) != null;
        if (message.length > Limits.MAX_PAYLOAD_BYTES || isMarked) {
            sendLarge(Source.of(message), options);
            return;
        }
        if (options.acknowledged()) {
            calls.sendAcknowledged(name, message, options.timeout());
        } else {
            long deadline = System.nanoTime() + options.timeout().toNanos();
            Load load = Load.of(EnvelopeType.MESSAGE, 0, message, deadline);
            pool.blocking(() -> links.granted(name, deadline).send(load));
        }
        options.progress().written(message.length, message.length);
    }
}
