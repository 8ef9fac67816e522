package speed.internal.wire;

import com.google.protobuf.Any;
import com.google.protobuf.Message;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.internal.wire.Fields.ContentEncoding;
import speed.internal.wire.Fields.ContentType;

/**
 * A payload to be framed.
 *
 * @param type number of the content type
 * @param custom its text, or null
 * @param typeUrl of a protobuf message, or null
 * @param data the bytes as they travel
 * @param encoding number of the content encoding, 0 for none
 * @param uncompressedBytes of the payload before it, 0 without one
 */
public record Content(int type, String custom, String typeUrl, byte[] data, int encoding, long uncompressedBytes) {
    private static final String MSGPACK = "application/msgpack";
    private static final String TEXT = "text/plain";
    static final String BYTES = "application/octet-stream";
    private static final String JSON = "application/json";
    static final String PROTOBUF_TYPE = "application/protobuf";
    private static final Map<Integer, String> TYPES = Map.of(
            ContentType.UNSPECIFIED,
            BYTES,
            ContentType.PROTOBUF,
            PROTOBUF_TYPE,
            ContentType.JSON,
            JSON,
            ContentType.AVRO,
            "application/avro");

    Content(int type, String custom, String typeUrl, byte[] data) {
        this(type, custom, typeUrl, data, 0, 0);
    }

    /** The bytes of a value and the type that is inferred from it; what is content already stays as it is. */
    public static Content of(Object given) {
        if (given instanceof Content content) {
            return content;
        }
        Object payload = Plain.of(given, "payload");
        if (payload instanceof String text) {
            return new Content(ContentType.CUSTOM, TEXT, null, utf8(text));
        }
        if (payload instanceof byte[] bytes) {
            return new Content(ContentType.CUSTOM, BYTES, null, bytes);
        }
        if (payload instanceof Message message) {
            String url = "type.googleapis.com/" + message.getDescriptorForType().getFullName();
            return new Content(ContentType.PROTOBUF, null, url, message.toByteArray());
        }
        return new Content(ContentType.CUSTOM, MSGPACK, null, Values.encode(payload, "payload"));
    }

    /** The same with other bytes, such as its ciphertext. */
    public Content withData(byte[] other) {
        return new Content(type, custom, typeUrl, other, encoding, uncompressedBytes);
    }

    /** The same, compressed into these bytes. */
    public Content compressed(String encodingName, byte[] into) {
        int number = ContentEncoding.NAMES.entrySet().stream()
                .filter(one -> one.getValue().equals(encodingName))
                .map(Map.Entry::getKey)
                .findFirst()
                .orElseThrow();
        return new Content(type, custom, typeUrl, into, number, data.length);
    }

    /** Media type of the payload. */
    public String typeName() {
        return typeName(type, custom);
    }

    /** Name of its encoding. */
    public String encodingName() {
        return encodingName(encoding, null);
    }

    /** The value of some payload bytes; types without a decoder here come back as bytes. */
    public static Object decode(String mediaType, String typeUrl, byte[] data, int from, int length) {
        try {
            return switch (mediaType) {
                case MSGPACK -> ValueReader.decode(data, from, length, "payload");
                case TEXT -> text(data, from, length);
                case JSON -> Json.parse(text(data, from, length));
                case PROTOBUF_TYPE ->
                    Any.newBuilder()
                            .setTypeUrl(typeUrl)
                            .setValue(com.google.protobuf.ByteString.copyFrom(data, from, length))
                            .build();
                default -> Arrays.copyOfRange(data, from, from + length);
            };
        } catch (WireException | IllegalArgumentException | CharacterCodingException broken) {
            throw new WireException("BAD_MESSAGE", "payload: is not valid " + mediaType);
        }
    }

    /** The media type of an enum number; a number of a later version is {@code unknown/<n>}. */
    static String typeName(int number, String custom) {
        return number == ContentType.CUSTOM ? custom : TYPES.getOrDefault(number, "unknown/" + number);
    }

    /** The name of an encoding number, {@code none} when absent. */
    static String encodingName(int number, String custom) {
        return number == ContentEncoding.CUSTOM
                ? custom
                : ContentEncoding.NAMES.getOrDefault(number, "unknown/" + number);
    }

    private static String text(byte[] data, int from, int length) throws CharacterCodingException {
        return StandardCharsets.UTF_8
                .newDecoder()
                .decode(ByteBuffer.wrap(data, from, length))
                .toString();
    }

    private static byte[] utf8(String text) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] data = new byte[encoded.remaining()];
            encoded.get(data);
            return data;
        } catch (CharacterCodingException loneSurrogate) {
            throw new UnserialisableException("payload is text with a lone surrogate");
        }
    }
}
