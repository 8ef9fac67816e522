package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import speed.errors.WireException;
import speed.internal.wire.Fields.ContentType;
import speed.internal.wire.Fields.MessageEnvelope;
import speed.internal.wire.Fields.MessageMetadata;
import speed.internal.wire.Fields.ObservabilityContext;
import speed.internal.wire.Fields.ProtobufAny;
import speed.internal.wire.Fields.SecurityContext;

/** A received message: metadata parsed, payload found but neither copied nor decoded (M-n). */
public final class MessageView {
    private final byte[] data;
    private final MessageFront front;
    private final Supplier<byte[]> value;
    private final Records envelope = new Records(MessageEnvelope::field);
    private final Records metadata;
    private int payloadFrom;
    private int payloadLength;
    private String typeUrl = "";

    private MessageView(byte[] data, MessageFront front, Supplier<byte[]> value) {
        this.data = data;
        this.front = front;
        this.value = value;
        boolean hasPayload = false;
        RecordWalk walk = new RecordWalk(data, 0, data.length);
        while (walk.advance()) {
            if (walk.is(MessageEnvelope.PAYLOAD)) {
                hasPayload = true;
                findPayload(walk.inside());
            } else {
                envelope.merge(walk);
            }
        }
        MessageRules.require(envelope.has(MessageEnvelope.METADATA), "metadata", "is required");
        metadata = envelope.message(MessageEnvelope.METADATA);
        check(hasPayload);
    }

    /** The message in the bytes; BAD_MESSAGE names the field that breaks a rule. */
    public static MessageView of(byte[] data) {
        return new MessageView(data, null, null);
    }

    /** A message that is too large to be held: its payload's value is fetched by who asks for it. */
    public static MessageView of(MessageFront front, Supplier<byte[]> value) {
        return new MessageView(front.withoutValue(), front, value);
    }

    /** Of repeated records the last of each field counts. */
    private void findPayload(RecordWalk any) {
        while (any.advance()) {
            if (any.is(ProtobufAny.VALUE)) {
                payloadFrom = any.value;
                payloadLength = any.next() - any.value;
            } else if (any.is(ProtobufAny.TYPE_URL)) {
                typeUrl = Records.text(any);
            }
        }
    }

    private void check(boolean hasPayload) {
        MessageRules.checkRequired(
                metadata.text(MessageMetadata.MESSAGE_ID),
                metadata.text(MessageMetadata.TOPIC),
                metadata.text(MessageMetadata.NAMESPACE),
                metadata.number(MessageMetadata.PUBLISHED_AT_MS));
        MessageRules.checkOptional(
                (int) metadata.number(MessageMetadata.PRIORITY), metadata.number(MessageMetadata.TTL_SECONDS));
        MessageRules.checkCustom(
                "content_type_custom", contentNumber(), metadata.text(MessageMetadata.CONTENT_TYPE_CUSTOM));
        MessageRules.checkCustom(
                "content_encoding_custom",
                (int) metadata.number(MessageMetadata.CONTENT_ENCODING),
                metadata.text(MessageMetadata.CONTENT_ENCODING_CUSTOM));
        MessageRules.require(hasPayload, "payload", "is required");
        boolean named = contentNumber() != ContentType.PROTOBUF || !typeUrl.isEmpty();
        MessageRules.require(named, "payload.type_url", "is required for application/protobuf");
    }

    private int contentNumber() {
        return (int) metadata.number(MessageMetadata.CONTENT_TYPE);
    }

    public String messageId() {
        return metadata.text(MessageMetadata.MESSAGE_ID);
    }

    public String topic() {
        return metadata.text(MessageMetadata.TOPIC);
    }

    public String namespace() {
        return metadata.text(MessageMetadata.NAMESPACE);
    }

    public long publishedAtMs() {
        return metadata.number(MessageMetadata.PUBLISHED_AT_MS);
    }

    /** Media type of the payload, such as {@code application/msgpack}. */
    public String contentType() {
        return Content.typeName(contentNumber(), metadata.text(MessageMetadata.CONTENT_TYPE_CUSTOM));
    }

    /** {@code none}, {@code gzip}, {@code snappy}, {@code zstd} or a custom name. */
    public String contentEncoding() {
        return Content.encodingName(
                (int) metadata.number(MessageMetadata.CONTENT_ENCODING),
                metadata.text(MessageMetadata.CONTENT_ENCODING_CUSTOM));
    }

    /** 1 to 10; absent or zero reads as 5. */
    public int priority() {
        int priority = (int) metadata.number(MessageMetadata.PRIORITY);
        return priority == 0 ? Limits.DEFAULT_PRIORITY : priority;
    }

    /** Seconds after publishing at which it expires; 0 is never. */
    public long ttlSeconds() {
        return metadata.number(MessageMetadata.TTL_SECONDS);
    }

    /** Whether its time to live has passed at a Unix time in ms. */
    public boolean isExpired(long nowMs) {
        return ttlSeconds() > 0 && (nowMs - publishedAtMs()) / 1000 >= ttlSeconds();
    }

    /** Null when absent. */
    public String correlationId() {
        return metadata.text(MessageMetadata.CORRELATION_ID);
    }

    /** Null when absent. */
    public String causalityParent() {
        return metadata.text(MessageMetadata.CAUSALITY_PARENT);
    }

    /** Who the publisher says it is; the authenticated name is the envelope's source. Null when absent. */
    public String publisherId() {
        return envelope.message(MessageEnvelope.SECURITY).text(SecurityContext.PUBLISHER_ID);
    }

    /** What it says of its publisher, signature, encryption and sensitivity. */
    public Security security() {
        return Security.of(envelope.message(MessageEnvelope.SECURITY));
    }

    /** Whether it says that its payload is encrypted for its readers. */
    public boolean isEncrypted() {
        return envelope.message(MessageEnvelope.SECURITY).has(SecurityContext.ENCRYPTION);
    }

    /** Whether a signature stands in it. */
    public boolean isSigned() {
        return envelope.message(MessageEnvelope.SECURITY).has(SecurityContext.SIGNATURE);
    }

    /** Its signatures, and what they cover; nothing of its payload is copied. */
    public SignedParts signedParts() {
        return new SignedParts(front == null ? data : bytes());
    }

    /** What it says of its payload's schema. */
    public Schema schema() {
        return Schema.of(envelope.message(MessageEnvelope.SCHEMA));
    }

    /** Of the payload before its compression, as the publisher says; 0 if absent. */
    public long uncompressedBytes() {
        return metadata.number(MessageMetadata.UNCOMPRESSED_BYTES);
    }

    /** Of a protobuf payload, else empty. */
    public String typeUrl() {
        return typeUrl;
    }

    /** W3C traceparent, null when absent or not valid. */
    public String traceparent() {
        Records trace = envelope.message(MessageEnvelope.OBSERVABILITY);
        if (!trace.has(ObservabilityContext.TRACE_ID) || !trace.has(ObservabilityContext.SPAN_ID)) {
            return null;
        }
        TraceParent parsed = new TraceParent(
                trace.text(ObservabilityContext.TRACE_ID), trace.text(ObservabilityContext.SPAN_ID), (int)
                        trace.number(ObservabilityContext.TRACE_FLAGS));
        return parsed.isValid() ? parsed.toString() : null;
    }

    public Map<String, String> labels() {
        return texts(ObservabilityContext.LABELS);
    }

    public Map<String, String> baggage() {
        return texts(ObservabilityContext.BAGGAGE);
    }

    private Map<String, String> texts(int field) {
        Map<String, String> texts = new LinkedHashMap<>();
        envelope.message(MessageEnvelope.OBSERVABILITY)
                .map(field)
                .forEach((key, value) -> texts.put(key, (String) value));
        return texts;
    }

    /** All extensions, known or not. */
    public Map<String, byte[]> extensions() {
        Map<String, byte[]> extensions = new LinkedHashMap<>();
        envelope.map(MessageEnvelope.EXTENSIONS).forEach((key, value) -> extensions.put(key, (byte[]) value));
        return extensions;
    }

    /** A copy of the payload as it travelled. */
    public byte[] payloadBytes() {
        return value != null ? value.get() : Arrays.copyOfRange(data, payloadFrom, payloadFrom + payloadLength);
    }

    /** Whether the payload's value is its bytes as they travelled. */
    public boolean isPlainBytes() {
        return contentType().equals(Content.BYTES) && contentEncoding().equals("none") && !isEncrypted();
    }

    /** The payload's value, decoded anew each time; BAD_MESSAGE when it is not what its type says. */
    public Object payload() {
        MessageRules.require(
                contentEncoding().equals("none"),
                "content_encoding",
                "is " + contentEncoding() + "; read the payload's bytes");
        MessageRules.require(!isEncrypted(), "security.encryption", "the payload is encrypted; read its bytes");
        return decoded();
    }

    private Object decoded() {
        byte[] bytes = value == null ? data : value.get();
        return value == null
                ? Content.decode(contentType(), typeUrl, bytes, payloadFrom, payloadLength)
                : Content.decode(contentType(), typeUrl, bytes, 0, bytes.length);
    }

    /** Whether its payload is here, and not in a store. */
    public boolean isHeld() {
        return front == null;
    }

    /** Of the whole message, also where its payload is not held. */
    public long size() {
        return front == null ? data.length : front.total();
    }

    /** Exactly the bytes received, unknown fields included. */
    public byte[] bytes() {
        if (front == null) {
            return data.clone();
        }
        byte[] before = front.bytes();
        byte[] payload = value.get();
        byte[] all = Arrays.copyOf(before, before.length + payload.length);
        System.arraycopy(payload, 0, all, before.length, payload.length);
        return all;
    }

    /** What the metadata of a message must look like; the same check on both sides. */
    static final class MessageRules {
        private static final int MAX_PRIORITY = 10;

        private MessageRules() {}

        static void checkRequired(String messageId, String topic, String namespace, long publishedAtMs) {
            checkText("message_id", messageId, Limits.MAX_MESSAGE_ID_BYTES);
            checkText("topic", topic, Limits.MAX_TOPIC_BYTES);
            require(Names.isTopic(topic), "topic", "is not dot-separated parts of [A-Za-z0-9_-]");
            checkText("namespace", namespace, Limits.MAX_NAMESPACE_BYTES);
            require(publishedAtMs > 0, "published_at_ms", "is required and greater than zero");
        }

        static void checkOptional(long priority, long ttlSeconds) {
            require(priority >= 0 && priority <= MAX_PRIORITY, "priority", "is outside 0..10");
            require(ttlSeconds >= 0, "ttl_seconds", "is negative");
        }

        static void checkCustom(String field, long number, String custom) {
            boolean named = custom != null && !custom.isEmpty();
            require(number != ContentType.CUSTOM || named, field, "is required when its enum says CUSTOM");
        }

        static void require(boolean holds, String field, String what) {
            if (!holds) {
                throw new WireException("BAD_MESSAGE", field + ": " + what);
            }
        }

        private static void checkText(String field, String text, int most) {
            require(text != null && !text.isEmpty(), field, "is required and not empty");
            boolean fits = text.length() <= most && text.getBytes(StandardCharsets.UTF_8).length <= most;
            require(fits, field, "is longer than " + most + " bytes");
        }
    }

    /** The parts of a W3C traceparent: lower-case hexadecimal ids and the flags byte. */
    public record TraceParent(String traceId, String spanId, int flags) {
        private static final int LENGTH = 55;

        /** The parts of the text; later versions are read by their first 55 characters. BAD_MESSAGE otherwise. */
        public static TraceParent parse(String text) {
            if (text.length() < LENGTH
                    || !isHex(text, 0, 2)
                    || !isHex(text, 53, 55)
                    || text.charAt(2) != '-'
                    || text.charAt(35) != '-'
                    || text.charAt(52) != '-') {
                throw invalid("is not of the form 00-<32 hex>-<16 hex>-<2 hex>, in lower case");
            }
            boolean longer = text.length() > LENGTH;
            boolean isFirstVersion = text.startsWith("00");
            if (text.startsWith("ff") || longer && (isFirstVersion || text.charAt(LENGTH) != '-')) {
                throw invalid("has a forbidden version or text after the flags");
            }
            TraceParent parsed = new TraceParent(
                    text.substring(3, 35), text.substring(36, 52), Integer.parseInt(text.substring(53, 55), 16));
            if (!parsed.isValid()) {
                throw invalid("has an id that is not lower-case hex or is all zero");
            }
            return parsed;
        }

        /** Whether both ids have W3C form and are not all zero, and the flags are one byte. */
        public boolean isValid() {
            return traceId.length() == 32
                    && spanId.length() == 16
                    && isHex(traceId, 0, 32)
                    && isHex(spanId, 0, 16)
                    && !traceId.equals("0".repeat(32))
                    && !spanId.equals("0".repeat(16))
                    && flags >= 0
                    && flags <= 255;
        }

        @Override
        public String toString() {
            return String.format("00-%s-%s-%02x", traceId, spanId, flags);
        }

        private static boolean isHex(String text, int from, int to) {
            for (int index = from; index < to; index++) {
                char one = text.charAt(index);
                if (!(one >= '0' && one <= '9' || one >= 'a' && one <= 'f')) {
                    return false;
                }
            }
            return true;
        }

        private static WireException invalid(String why) {
            return new WireException("BAD_MESSAGE", "traceparent: " + why);
        }
    }
}
