package speed.message;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import speed.internal.wire.Content;
import speed.internal.wire.Hashes;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;
import speed.internal.wire.Schema;
import speed.internal.wire.Security.Encrypted;

/** What of a message its encrypted payload is bound to. */
record PayloadContext(
        String messageId,
        String topic,
        String namespace,
        String contentType,
        String typeUrl,
        String contentEncoding,
        long uncompressedBytes,
        String schemaHash,
        String classification,
        byte[] aad) {
    /** What a received message says of itself. */
    static PayloadContext of(MessageView view, Encrypted how) {
        return new PayloadContext(
                view.messageId(),
                view.topic(),
                view.namespace(),
                view.contentType(),
                view.typeUrl(),
                view.contentEncoding(),
                view.uncompressedBytes(),
                view.schema().hash(),
                view.security().classification(),
                how.aad());
    }

    /** What a message that is being written will say. */
    static PayloadContext of(MessageDraft draft, Content content, Schema schema, Protection protection) {
        return new PayloadContext(
                draft.messageId(),
                draft.topic(),
                draft.namespace(),
                content.typeName(),
                content.typeUrl() == null ? "" : content.typeUrl(),
                content.encodingName(),
                content.uncompressedBytes(),
                schema.hash(),
                protection.level() == null ? "" : protection.level(),
                protection.aad());
    }

    /** SHA-256 of the context: the associated data of the payload. */
    byte[] hash(Algorithm algorithm, List<String> keyIds) {
        Prefixed context = new Prefixed("speed/1 message payload")
                .text(algorithm.label())
                .text(messageId)
                .text(topic)
                .text(namespace)
                .text(contentType)
                .text(typeUrl)
                .text(contentEncoding)
                .u64(uncompressedBytes)
                .text(schemaHash)
                .text(classification)
                .bytes(aad)
                .u32(keyIds.size());
        keyIds.forEach(context::text);
        return Hashes.sha256(context.toByteArray());
    }

    /** Bytes that are hashed or signed, each part behind its length: no two lists of parts give the same. */
    static final class Prefixed {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();

        Prefixed(String domain) {
            text(domain);
        }

        Prefixed text(String text) {
            return bytes(text.getBytes(StandardCharsets.UTF_8));
        }

        Prefixed bytes(byte[] bytes) {
            return u64(bytes.length).raw(bytes);
        }

        Prefixed u64(long number) {
            return raw(ByteBuffer.allocate(Long.BYTES).putLong(number).array());
        }

        Prefixed u32(int number) {
            return raw(ByteBuffer.allocate(Integer.BYTES).putInt(number).array());
        }

        /** Without its length. */
        Prefixed raw(byte[] bytes) {
            out.writeBytes(bytes);
            return this;
        }

        byte[] toByteArray() {
            return out.toByteArray();
        }
    }
}
