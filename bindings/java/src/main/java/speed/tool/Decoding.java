package speed.tool;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import speed.errors.KeyFileException;
import speed.errors.MessageException;
import speed.errors.WireException;
import speed.internal.message.MessageGuard;
import speed.internal.message.OpenedMessage;
import speed.internal.segment.Segment;
import speed.internal.wire.Block;
import speed.internal.wire.Control;
import speed.internal.wire.Cursor;
import speed.internal.wire.Entry;
import speed.internal.wire.Fence;
import speed.internal.wire.Header;
import speed.internal.wire.Json;
import speed.internal.wire.KeyFile;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.LinkOpener;
import speed.internal.wire.MessageView;
import speed.internal.wire.NodeId;
import speed.internal.wire.SpcRequest;
import speed.internal.wire.SpcResponse;
import speed.internal.wire.TopicRecord;
import speed.internal.wire.ValueReader;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SchemaReference;
import speed.message.SignaturePolicy;

/** What this implementation makes of bytes. Keys and lane are those of the vectors: analytics to billing, two keys. */
public final class Decoding {
    static final NodeId SOURCE = NodeId.of("analytics");
    static final NodeId TARGET = NodeId.of("billing");
    static final Keyring RING = new Keyring(List.of(bytesFrom(0), bytesFrom(32)));
    static final LaneMac MAC = new LaneMac(RING, SOURCE, TARGET);

    private Decoding() {}

    private static byte[] bytesFrom(int first) {
        byte[] bytes = new byte[32];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) (first + index);
        }
        return bytes;
    }

    /** {@code OK}, or the wire or message code under which the bytes are refused. */
    static String verdict(String kind, byte[] data) {
        try {
            decode(kind, data);
            return "OK";
        } catch (WireException refused) {
            return refused.reason();
        } catch (KeyFileException refused) {
            return "BAD_KEY_FILE";
        } catch (MessageException refused) {
            return refused.code();
        }
    }

    private static Object decode(String kind, byte[] data) {
        return switch (kind) {
            case "envelope" -> open(data);
            case "entry" -> Entry.decode(data, RING.registryKeys());
            case "cursor" -> Cursor.decode(data, MAC);
            case "fence" -> Fence.decode(data, MAC);
            case "value" -> ValueReader.decode(data, "value");
            case "request" -> SpcRequest.decode(data);
            case "response" -> SpcResponse.decode(data);
            case "control" -> Control.decode(data);
            case "message" -> MessageView.of(data);
            case "segment" -> Segment.read(data);
            case "keyfile" -> KeyFile.parse(data);
            case "topic" -> TopicRecord.read(data);
            case "protected" -> VectorGuard.open(data);
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }

    /** As a receiver of the lane does: header, ids, length, tag. */
    private static byte[] open(byte[] data) {
        Block envelope = Block.of(data.length == 0 ? new byte[1] : data);
        Header header = Header.parse(envelope.bytes, 0, data.length);
        refuseUnless(header.source().equals(SOURCE), "WRONG_SOURCE");
        refuseUnless(header.target().equals(TARGET), "WRONG_TARGET");
        refuseUnless(header.envelopeBytes() <= data.length, "TRUNCATED");
        Block payload = new Block(Math.max(1, header.payloadBytes()));
        return new LinkOpener(RING, SOURCE, TARGET).open(header, envelope, 0, payload);
    }

    private static void refuseUnless(boolean holds, String reason) {
        if (!holds) {
            throw new WireException(reason, "of this lane");
        }
    }

    static byte[] hex(Object digits) {
        return HexFormat.of().parseHex((String) digits);
    }

    /** Opens protected messages as a node that has the keys of the vectors: those which every build has. */
    public static final class VectorGuard {
        private static final Set<String> OPENS = Set.of("aes-256-gcm", "chacha20-poly1305", "x25519-chacha20-poly1305");
        private static final long CLOCK_MS = 1_800_000_000_000L;
        private static final Path CONTRACT = Path.of(System.getProperty("speed.contract", "registry_spec"));
        private static final MessageGuard<Protection, SchemaReference> GUARD = MessageGuard.of(settings(), "");

        private VectorGuard() {}

        /**
         * Checks and opens one message.
         *
         * @param message its bytes
         * @return what a handler would get
         * @throws speed.errors.SpeedException for what is refused
         */
        public static OpenedMessage open(byte[] message) {
            return GUARD.open(MessageView.of(message), CLOCK_MS, "");
        }

        private static MessageSecurity settings() {
            MessageKey[] trusted = keys("signatures", "trusted", false);
            return MessageSecurity.NONE
                    .withKeys(keys("encryption", "keys", true))
                    .withPolicy(SignaturePolicy.VERIFY, trusted)
                    .withClearance("confidential");
        }

        private static MessageKey[] keys(String file, String list, boolean some) {
            List<MessageKey> keys = new ArrayList<>();
            for (Object record : (List<?>) vectors(file).get(list)) {
                Map<?, ?> fields = (Map<?, ?>) record;
                if (!some || OPENS.contains(fields.get("algorithm"))) {
                    keys.add(MessageKey.of(fields));
                }
            }
            return keys.toArray(new MessageKey[0]);
        }

        private static Map<?, ?> vectors(String file) {
            try {
                return (Map<?, ?>) Json.parse(Files.readString(CONTRACT.resolve("vectors/" + file + ".json")));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
