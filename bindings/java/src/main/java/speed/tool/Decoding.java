package speed.tool;

import java.util.HexFormat;
import java.util.List;
import speed.errors.KeyFileException;
import speed.errors.MessageException;
import speed.errors.WireException;
import speed.internal.segment.Segment;
import speed.internal.wire.Block;
import speed.internal.wire.Control;
import speed.internal.wire.Cursor;
import speed.internal.wire.Entry;
import speed.internal.wire.Fence;
import speed.internal.wire.Header;
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

/** What this implementation makes of bytes. Keys and lane are those of the vectors: analytics to billing, two keys. */
final class Decoding {
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
}
