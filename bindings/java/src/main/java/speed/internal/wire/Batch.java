package speed.internal.wire;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.errors.BatchException;

/** Many payloads in one message. */
public final class Batch {
    /** The content type of such a message. */
    public static final String TYPE = "application/x-speed-batch";
    /** Before the type URL of a protobuf message. */
    private static final String PROTOBUF = Content.PROTOBUF_TYPE + ";type_url=";

    static final int MAX_PAYLOADS = 65_536;
    private static final int MAX_KIND_BYTES = 256;

    private Batch() {}

    /** One payload of a batch: its content type, the type URL of a protobuf message, and where its bytes lie. */
    public record Part(String contentType, String typeUrl, int from, int length) {}

    // --- writing ---

    /** The payloads as one; each as it would travel alone. */
    public static Content of(List<?> payloads) {
        if (payloads.size() > MAX_PAYLOADS) {
            throw new BatchException(payloads.size() + " payloads are too many for one batch; at most " + MAX_PAYLOADS);
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        put(out, payloads.size());
        for (Object payload : payloads) {
            Content content = Content.of(payload);
            byte[] kind = kind(content);
            put(out, kind.length);
            out.writeBytes(kind);
            put(out, content.data().length);
            out.writeBytes(content.data());
        }
        return new Content(Fields.ContentType.CUSTOM, TYPE, null, out.toByteArray());
    }

    /** One batch for each topic among pairs of topic and payload, in the order of their first payloads. */
    public static Map<String, Content> ofTopics(List<? extends Map.Entry<String, ?>> pairs) {
        Map<String, List<Object>> payloads = new LinkedHashMap<>();
        for (Map.Entry<String, ?> pair : pairs) {
            String topic = Names.checkTopic(
                    Require.value("topic", Require.value("one of pairs", pair).getKey()));
            payloads.computeIfAbsent(topic, first -> new ArrayList<>()).add(pair.getValue());
        }
        Map<String, Content> batches = new LinkedHashMap<>();
        payloads.forEach((topic, its) -> batches.put(topic, of(its)));
        return batches;
    }

    private static byte[] kind(Content content) {
        String text = content.typeUrl() == null ? content.typeName() : PROTOBUF + content.typeUrl();
        byte[] kind = text.getBytes(StandardCharsets.UTF_8);
        if (kind.length > MAX_KIND_BYTES) {
            throw new BatchException(
                    "a content type of " + kind.length + " bytes is too long for a batch: send that payload alone");
        }
        return kind;
    }

    private static void put(ByteArrayOutputStream out, int number) {
        out.writeBytes(ByteBuffer.allocate(Integer.BYTES).putInt(number).array());
    }

    // --- reading ---

    /** The payloads' values; BAD_BATCH as {@link #split}, BAD_MESSAGE for one that is not what its type says. */
    public static List<Object> decode(byte[] data) {
        List<Object> values = new ArrayList<>();
        for (Part part : split(data)) {
            values.add(Content.decode(part.contentType(), part.typeUrl(), data, part.from(), part.length()));
        }
        return Collections.unmodifiableList(values);
    }

    /** The payloads of a batch; BAD_BATCH where number, lengths and end do not agree. */
    public static List<Part> split(byte[] data) {
        ByteBuffer rest = ByteBuffer.wrap(data);
        long count = number(rest);
        if (count > MAX_PAYLOADS || count * 2 * Integer.BYTES > rest.remaining()) {
            throw new BatchException("a batch of " + data.length + " bytes says that it holds " + count + " payloads");
        }
        List<Part> parts = new ArrayList<>((int) count);
        while (parts.size() < count) {
            parts.add(part(rest));
        }
        if (rest.hasRemaining()) {
            throw new BatchException("the batch goes on behind its last payload");
        }
        return parts;
    }

    private static Part part(ByteBuffer rest) {
        String kind = kind(rest);
        long size = number(rest);
        if (size > rest.remaining()) {
            throw new BatchException("a payload of the batch reaches past its end");
        }
        int from = rest.position();
        rest.position(from + (int) size);
        boolean isProtobuf = kind.startsWith(PROTOBUF);
        return new Part(
                isProtobuf ? Content.PROTOBUF_TYPE : kind,
                isProtobuf ? kind.substring(PROTOBUF.length()) : "",
                from,
                (int) size);
    }

    /** A content type as it stands there: what opens no payload is refused. */
    private static String kind(ByteBuffer rest) {
        long size = number(rest);
        if (size < 1 || size > MAX_KIND_BYTES || size > rest.remaining()) {
            throw new BatchException("a content type of the batch has a length that cannot be");
        }
        String kind = text(rest, (int) size);
        if (kind.equals(TYPE) || kind.equals(Content.PROTOBUF_TYPE) || kind.equals(PROTOBUF)) {
            throw new BatchException("a batch holds no " + kind);
        }
        return kind;
    }

    private static String text(ByteBuffer rest, int size) {
        ByteBuffer bytes = rest.slice(rest.position(), size);
        rest.position(rest.position() + size);
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
        } catch (CharacterCodingException broken) {
            throw new BatchException("a content type of the batch is not UTF-8");
        }
    }

    private static long number(ByteBuffer rest) {
        if (rest.remaining() < Integer.BYTES) {
            throw new BatchException("the batch is truncated");
        }
        return Integer.toUnsignedLong(rest.getInt());
    }
}
