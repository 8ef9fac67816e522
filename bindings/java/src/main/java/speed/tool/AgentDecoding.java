package speed.tool;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import speed.errors.KeyFileException;
import speed.errors.WireException;
import speed.wire.Block;
import speed.wire.Control;
import speed.wire.Cursor;
import speed.wire.Entry;
import speed.wire.Fence;
import speed.wire.Header;
import speed.wire.KeyFile;
import speed.wire.Keyring;
import speed.wire.LaneMac;
import speed.wire.LinkOpener;
import speed.wire.MessageView;
import speed.wire.NodeId;
import speed.wire.SpcRequest;
import speed.wire.SpcResponse;
import speed.wire.ValueReader;

/**
 * What this implementation makes of bytes: {@code OK}, or the wire code under which it refuses them.
 *
 * <p>Keys and lane are those of the vectors: analytics to billing, two accepted keys.
 */
final class AgentDecoding {
    /** Accepts bytes, or throws. */
    private interface Decoder {
        void decode(byte[] data);
    }

    private static final NodeId SOURCE = NodeId.of("analytics");
    private static final NodeId TARGET = NodeId.of("billing");
    private static final Keyring RING = new Keyring(List.of(key(0), key(32)));
    private static final LaneMac MAC = new LaneMac(RING.laneKeys(SOURCE, TARGET));

    private static final Map<String, Decoder> DECODERS = Map.of(
            "envelope", AgentDecoding::open,
            "entry", data -> Entry.decode(data, RING.registryKeys()),
            "cursor", data -> Cursor.decode(data, MAC),
            "fence", data -> Fence.decode(data, MAC),
            "value", data -> ValueReader.decode(data, "value"),
            "request", SpcRequest::decode,
            "response", SpcResponse::decode,
            "control", Control::decode,
            "message", MessageView::of,
            "keyfile", KeyFile::parse);

    private AgentDecoding() {}

    static String verdict(String kind, byte[] data) {
        try {
            DECODERS.get(kind).decode(data);
            return "OK";
        } catch (WireException refused) {
            return refused.reason();
        } catch (KeyFileException refused) {
            return "BAD_KEY_FILE";
        }
    }

    /** As a receiver of the lane does: header, ids, length, tag (W-5, W-12). */
    private static void open(byte[] data) {
        Block block = Block.of(data);
        Header header = Header.parse(block.bytes, 0, data.length);
        require(header.source().equals(SOURCE), "WRONG_SOURCE");
        require(header.target().equals(TARGET), "WRONG_TARGET");
        require(header.envelopeBytes() <= data.length, "TRUNCATED");
        new LinkOpener(RING, SOURCE, TARGET).open(header, block, 0, new Block(header.envelopeBytes()));
    }

    private static void require(boolean holds, String reason) {
        if (!holds) {
            throw new WireException(reason, "not of this lane, or cut");
        }
    }

    /** 32 bytes that count up. */
    private static byte[] key(int first) {
        byte[] key = new byte[32];
        IntStream.range(0, key.length).forEach(index -> key[index] = (byte) (first + index));
        return key;
    }
}
