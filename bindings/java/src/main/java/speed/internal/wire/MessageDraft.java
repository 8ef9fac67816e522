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
import speed.internal.wire.MessageView.MessageRules;
import speed.internal.wire.MessageView.TraceParent;

/** A message to be written. Times in Unix ms. */
public record MessageDraft(
        String messageId, String topic, String namespace, long publishedAtMs, String publisherId, Options options) {
    public static final String DEFAULT_TOPIC = "message";
    public static final String DEFAULT_NAMESPACE = "default";
    private static final int PAYLOAD = 99;

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
            nested(out, 1, metadata(content));
            written(out, 2, security.encode());
            nested(out, 3, observability());
            written(out, 4, schema.encode());
            for (Map.Entry<String, byte[]> extension : options.extensions.entrySet()) {
                nested(out, 97, entry(extension.getKey(), extension.getValue()));
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
            out.writeString(1, messageId);
            out.writeString(2, topic);
            out.writeString(3, namespace);
            out.writeInt64(4, publishedAtMs);
            out.writeEnum(5, content.type());
            if (options.priority != 0) {
                out.writeInt32(6, options.priority);
            }
            if (options.ttlSeconds != 0) {
                out.writeInt64(7, options.ttlSeconds);
            }
            if (content.encoding() != 0) {
                out.writeEnum(8, content.encoding());
            }
            text(out, 9, options.correlationId);
            text(out, 10, options.causalityParent);
            text(out, 11, content.custom());
            if (content.uncompressedBytes() != 0) {
                out.writeInt64(13, content.uncompressedBytes());
            }
        };
    }

    private Part observability() {
        TraceParent trace = options.traceparent == null ? null : TraceParent.parse(options.traceparent);
        return out -> {
            if (trace != null) {
                out.writeString(1, trace.traceId());
                out.writeString(2, trace.spanId());
                out.writeInt32(4, trace.flags());
            }
            texts(out, 5, options.baggage);
            texts(out, 6, options.labels);
        };
    }

    private static void texts(CodedOutputStream out, int field, Map<String, String> texts) throws IOException {
        for (Map.Entry<String, String> one : texts.entrySet()) {
            nested(out, field, inner -> {
                inner.writeString(1, one.getKey());
                inner.writeString(2, one.getValue());
            });
        }
    }

    private static Part entry(String key, byte[] value) {
        return out -> {
            out.writeString(1, key);
            out.writeByteArray(2, value);
        };
    }

    private static void text(CodedOutputStream out, int field, String text) throws IOException {
        if (text != null) {
            out.writeString(field, text);
        }
    }

    /** The payload record stands last, its value is always written. */
    private static void putPayload(CodedOutputStream out, Content content, int bytes) throws IOException {
        int length = CodedOutputStream.computeTagSize(2) + CodedOutputStream.computeUInt32SizeNoTag(bytes) + bytes;
        if (content.typeUrl() != null) {
            length += CodedOutputStream.computeStringSize(1, content.typeUrl());
        }
        out.writeTag(PAYLOAD, RecordWalk.LENGTH_DELIMITED);
        out.writeUInt32NoTag(length);
        text(out, 1, content.typeUrl());
        out.writeTag(2, RecordWalk.LENGTH_DELIMITED);
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
