package speed.wire;

import java.nio.ByteBuffer;
import java.util.Map;

/** A message to be written (M-2, M-5, M-6): null, 0 and empty maps are not written. Times in Unix ms. */
public record MessageDraft(
        String messageId,
        String topic,
        String namespace,
        long publishedAtMs,
        int priority,
        long ttlSeconds,
        String correlationId,
        String causalityParent,
        String publisherId,
        String traceparent,
        Map<String, String> labels,
        Map<String, String> baggage,
        Map<String, byte[]> extensions) {
    public static final String DEFAULT_TOPIC = "message";
    public static final String DEFAULT_NAMESPACE = "default";
    private static final int PAYLOAD = 99;
    private static final int USUAL_HEAD_BYTES = 256;

    /** A UUIDv7 (M-13) of a time in Unix ms and 10 random bytes. */
    public static String newMessageId(long unixMs, byte[] random) {
        ByteBuffer tail = ByteBuffer.wrap(random);
        long high = unixMs << 16 | 0x7000 | tail.getShort() & 0x0FFF;
        long low = tail.getLong() & ~(0x3L << 62) | 0x2L << 62;
        return new java.util.UUID(high, low).toString();
    }

    /** The bytes of the message with a payload; BAD_MESSAGE names the field that breaks a rule. */
    public byte[] encode(Object payload) {
        Content content = Content.of(payload);
        MessageRules.checkRequired(messageId, topic, namespace, publishedAtMs);
        MessageRules.checkOptional(priority, ttlSeconds);
        ByteSink sink = new ByteSink(USUAL_HEAD_BYTES + content.data().length);
        RecordWriter out = new RecordWriter(sink);
        out.message(1, () -> putMetadata(out, content));
        out.message(2, () -> out.text(1, publisherId));
        out.message(3, () -> putObservability(out));
        extensions.forEach((key, value) -> out.message(97, () -> {
            out.text(1, key);
            out.bytes(2, value);
        }));
        putPayload(out, content);
        return sink.take();
    }

    private void putMetadata(RecordWriter out, Content content) {
        out.text(1, messageId);
        out.text(2, topic);
        out.text(3, namespace);
        out.number(4, publishedAtMs);
        out.number(5, content.type());
        if (priority != 0) {
            out.number(6, priority);
        }
        if (ttlSeconds != 0) {
            out.number(7, ttlSeconds);
        }
        out.text(9, correlationId);
        out.text(10, causalityParent);
        out.text(11, content.custom());
    }

    private void putObservability(RecordWriter out) {
        if (traceparent != null) {
            TraceParent trace = TraceParent.parse(traceparent);
            out.text(1, trace.traceId());
            out.text(2, trace.spanId());
            out.number(4, trace.flags());
        }
        putTexts(out, 5, baggage);
        putTexts(out, 6, labels);
    }

    private static void putTexts(RecordWriter out, int field, Map<String, String> texts) {
        texts.forEach((key, value) -> out.message(field, () -> {
            out.text(1, key);
            out.text(2, value);
        }));
    }

    /** The payload record stands last, its value is always written (M-2). */
    private static void putPayload(RecordWriter out, Content content) {
        byte[] data = content.data();
        int urlBytes = content.typeUrl() == null ? 0 : RecordWriter.recordBytes(1, content.typeUrl().length());
        out.begin(PAYLOAD, urlBytes + RecordWriter.recordBytes(2, data.length));
        out.text(1, content.typeUrl());
        out.bytes(2, data);
    }
}
