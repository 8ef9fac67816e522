package speed.internal.wire;

import com.google.protobuf.CodedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import speed.errors.WireException;
import speed.internal.wire.Fields.MapEntry;
import speed.internal.wire.Fields.MessageEnvelope;
import speed.internal.wire.Fields.MessageMetadata;
import speed.internal.wire.Fields.ObservabilityContext;
import speed.internal.wire.Fields.ProtobufAny;
import speed.internal.wire.MessageView.MessageRules;
import speed.internal.wire.MessageView.TraceParent;

/** A message to be written. Times in Unix ms. */
public record MessageDraft(
        String messageId, String topic, String namespace, long publishedAtMs, String publisherId, Options options) {
    public static final String DEFAULT_TOPIC = "message";
    public static final String DEFAULT_NAMESPACE = "default";

    /** What a message need not have: null, 0 and empty maps are not written. */
    public record Options(
            int priority,
            long ttlSeconds,
            String correlationId,
            String causalityParent,
            String traceparent,
            Map<String, String> labels,
            Map<String, String> baggage,
            Map<String, byte[]> extensions) {
        public static final Options NONE = new Options(0, 0, null, null, null, Map.of(), Map.of(), Map.of());
    }

    /** The bytes of the message with a payload; BAD_MESSAGE names the field that breaks a rule. */
    public byte[] encode(Object payload) {
        return encode(Content.of(payload), Security.ofPublisher(publisherId), Schema.NONE);
    }

    /** The same of a payload as it travels, with all that is said of its security and schema. */
    public byte[] encode(Content content, Security security, Schema schema) {
        return encoded(content, content.data().length, security, schema);
    }

    /** All of a message that stands before a payload of so many bytes, which are sent behind it. */
    public byte[] encodeFront(int payloadBytes) {
        return encoded(Content.of(new byte[0]), payloadBytes, Security.ofPublisher(publisherId), Schema.NONE);
    }

    /** The message; without the payload's bytes where they are not at hand. */
    private byte[] encoded(Content content, int payloadBytes, Security security, Schema schema) {
        MessageRules.checkRequired(messageId, topic, namespace, publishedAtMs);
        MessageRules.checkOptional(options.priority, options.ttlSeconds);
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(256 + content.data().length);
            CodedOutputStream out = CodedOutputStream.newInstance(bytes);
            nested(out, MessageEnvelope.METADATA, metadata(content));
            written(out, MessageEnvelope.SECURITY, security.encode());
            nested(out, MessageEnvelope.OBSERVABILITY, observability());
            written(out, MessageEnvelope.SCHEMA, schema.encode());
            for (Map.Entry<String, byte[]> extension : options.extensions.entrySet()) {
                nested(out, MessageEnvelope.EXTENSIONS, entry(extension.getKey(), extension.getValue()));
            }
            putPayload(out, content, payloadBytes);
            out.flush();
            return bytes.toByteArray();
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
    }

    private Part metadata(Content content) {
        return out -> {
            out.writeString(MessageMetadata.MESSAGE_ID, messageId);
            out.writeString(MessageMetadata.TOPIC, topic);
            out.writeString(MessageMetadata.NAMESPACE, namespace);
            out.writeInt64(MessageMetadata.PUBLISHED_AT_MS, publishedAtMs);
            out.writeEnum(MessageMetadata.CONTENT_TYPE, content.type());
            if (options.priority != 0) {
                out.writeInt32(MessageMetadata.PRIORITY, options.priority);
            }
            if (options.ttlSeconds != 0) {
                out.writeInt64(MessageMetadata.TTL_SECONDS, options.ttlSeconds);
            }
            if (content.encoding() != 0) {
                out.writeEnum(MessageMetadata.CONTENT_ENCODING, content.encoding());
            }
            text(out, MessageMetadata.CORRELATION_ID, options.correlationId);
            text(out, MessageMetadata.CAUSALITY_PARENT, options.causalityParent);
            text(out, MessageMetadata.CONTENT_TYPE_CUSTOM, content.custom());
            if (content.uncompressedBytes() != 0) {
                out.writeInt64(MessageMetadata.UNCOMPRESSED_BYTES, content.uncompressedBytes());
            }
        };
    }

    private Part observability() {
        TraceParent trace = options.traceparent == null ? null : TraceParent.parse(options.traceparent);
        return out -> {
            if (trace != null) {
                out.writeString(ObservabilityContext.TRACE_ID, trace.traceId());
                out.writeString(ObservabilityContext.SPAN_ID, trace.spanId());
                out.writeInt32(ObservabilityContext.TRACE_FLAGS, trace.flags());
            }
            texts(out, ObservabilityContext.BAGGAGE, options.baggage);
            texts(out, ObservabilityContext.LABELS, options.labels);
        };
    }

    private static void texts(CodedOutputStream out, int field, Map<String, String> texts) throws IOException {
        for (Map.Entry<String, String> one : texts.entrySet()) {
            nested(out, field, inner -> {
                inner.writeString(MapEntry.KEY, one.getKey());
                inner.writeString(MapEntry.VALUE, one.getValue());
            });
        }
    }

    private static Part entry(String key, byte[] value) {
        return out -> {
            out.writeString(MapEntry.KEY, key);
            out.writeByteArray(MapEntry.VALUE, value);
        };
    }

    private static void text(CodedOutputStream out, int field, String text) throws IOException {
        if (text != null) {
            out.writeString(field, text);
        }
    }

    /** The payload record stands last, its value is always written. */
    private static void putPayload(CodedOutputStream out, Content content, int bytes) throws IOException {
        int length = CodedOutputStream.computeTagSize(ProtobufAny.VALUE)
                + CodedOutputStream.computeUInt32SizeNoTag(bytes)
                + bytes;
        if (content.typeUrl() != null) {
            length += CodedOutputStream.computeStringSize(ProtobufAny.TYPE_URL, content.typeUrl());
        }
        out.writeTag(MessageEnvelope.PAYLOAD, RecordWalk.LENGTH_DELIMITED);
        out.writeUInt32NoTag(length);
        text(out, ProtobufAny.TYPE_URL, content.typeUrl());
        out.writeTag(ProtobufAny.VALUE, RecordWalk.LENGTH_DELIMITED);
        out.writeUInt32NoTag(bytes);
        out.writeRawBytes(content.data());
    }

    /** One nested message; an empty one is not written. */
    private static void nested(CodedOutputStream out, int field, Part part) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(160);
        CodedOutputStream inner = CodedOutputStream.newInstance(bytes, 160);
        part.write(inner);
        inner.flush();
        written(out, field, bytes.toByteArray());
    }

    private static void written(CodedOutputStream out, int field, byte[] message) throws IOException {
        if (message.length > 0) {
            out.writeByteArray(field, message);
        }
    }

    /** The fields of a nested message. */
    private interface Part {
        void write(CodedOutputStream out) throws IOException;
    }

    /** Ids of messages. */
    public static final class MessageIds {
        private static final int NUMBER_BITS = 48;

        private MessageIds() {}

        /** A UUIDv7 of a time in Unix ms and 10 random bytes. */
        public static String fresh(long unixMs, byte[] random) {
            ByteBuffer tail = ByteBuffer.wrap(random);
            long high = unixMs << 16 | 0x7000 | tail.getShort() & 0x0FFF;
            return text(high, tail.getLong());
        }

        /** The UUIDv8 of one message of a work of these names, the same when it is done again; numbers from 0 to 2^48 - 1. */
        public static String repeated(List<String> names, long number) {
            if (number >>> NUMBER_BITS != 0) {
                throw new WireException("BAD_MESSAGE", "message_id: a work makes at most 2^48 messages");
            }
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            for (String name : names) {
                byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
                putVarint(bytes.length, text);
                text.writeBytes(bytes);
            }
            ByteBuffer digest = ByteBuffer.wrap(Hashes.sha256(text.toByteArray()));
            long high = digest.getLong() & ~0xF000L | 0x8000L;
            return text(high, (long) digest.getShort() << NUMBER_BITS | number);
        }

        private static void putVarint(int value, ByteArrayOutputStream out) {
            int rest = value;
            for (; rest > 0x7F; rest >>>= 7) {
                out.write(rest & 0x7F | 0x80);
            }
            out.write(rest);
        }

        /** With the variant written over the two highest bits of the lower half. */
        private static String text(long high, long low) {
            return new UUID(high, low & ~(0x3L << 62) | 0x2L << 62).toString();
        }
    }
}
