package speed.fuzz;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.function.Consumer;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import speed.errors.WireException;
import speed.internal.core.LaneDecoder;
import speed.internal.segment.Assembler;
import speed.internal.segment.Segment;
import speed.internal.wire.Batch;
import speed.internal.wire.Block;
import speed.internal.wire.Control;
import speed.internal.wire.Cursor;
import speed.internal.wire.Entry;
import speed.internal.wire.Fence;
import speed.internal.wire.Hashes;
import speed.internal.wire.Json;
import speed.internal.wire.KeyFile;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Limits;
import speed.internal.wire.LinkOpener;
import speed.internal.wire.MessageFront;
import speed.internal.wire.MessageView;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;
import speed.internal.wire.SpcHead;
import speed.internal.wire.SpcRequest;
import speed.internal.wire.SpcResponse;
import speed.internal.wire.TopicRecord;
import speed.internal.wire.ValueReader;
import speed.internal.wire.Values;
import speed.tool.Decoding.VectorGuard;

/**
 * Everything that makes something of bytes from elsewhere. Files with a MAC get a right one, or nothing behind it would
 * be reached. Keys and lane are those of the vectors. The order is that of tests/interop/corpus.py: the fuzzers of all
 * languages share their corpus, whose first byte names the decoder.
 */
enum Decoder {
    LANE(Decoder::readLane),
    ENVELOPE(Decoder::readEnvelope),
    ENTRY(Decoder::readEntry),
    CURSOR(data -> Cursor.decode(signed(data), Fixed.MAC)),
    FENCE(data -> Fence.decode(signed(data), Fixed.MAC)),
    VALUE(Decoder::readValue),
    REQUEST(Decoder::readRequest),
    RESPONSE(SpcResponse::decode),
    CONTROL(data -> Control.sequence(Control.decode(data))),
    MESSAGE(Decoder::readMessage),
    CONTENT(Decoder::readContent),
    KEYFILE(KeyFile::parse),
    NAME(data -> readNames(text(data))),
    SEGMENT(Decoder::readSegment),
    SEGMENTS(Decoder::readSegments),
    FRONT(Decoder::readFront),
    PROTECTED(VectorGuard::open),
    TOPIC(TopicRecord::read);

    /** Made on first use: an enum's constants come before its other fields. */
    private static final class Fixed {
        private static final NodeId SOURCE = NodeId.of("analytics");
        private static final NodeId TARGET = NodeId.of("billing");
        private static final byte[] KEY = bytesTo(32);
        private static final Keyring RING = new Keyring(List.of(KEY));
        private static final LaneMac MAC = new LaneMac(RING, SOURCE, TARGET);
    }

    private static final int MAC_BYTES = 16;
    private static final int SENDER_GENERATION = 1;
    private static final int MOST_ENVELOPES = 64;

    private final Consumer<byte[]> reading;

    Decoder(Consumer<byte[]> reading) {
        this.reading = reading;
    }

    /** Reads the bytes; what breaks a rule ends with a SpeedException, nothing else. */
    void read(byte[] data) {
        reading.accept(data);
    }

    private static void readLane(byte[] data) {
        Block lane = Block.of(Arrays.copyOf(data, Math.max(1, data.length)));
        Block scratch = new Block(Math.max(1, data.length));
        LinkOpener opener = new LinkOpener(Fixed.RING, Fixed.SOURCE, Fixed.TARGET);
        LaneDecoder decoder = new LaneDecoder(
                Fixed.SOURCE, Fixed.TARGET, (header, block, at) -> opener.open(header, block, at, scratch));
        LaneDecoder.Scan scan = decoder.scan(
                new LaneDecoder.Window(lane, data.length, 0, SENDER_GENERATION, true, true), MOST_ENVELOPES);
        require(scan.consumed() <= data.length, "more was consumed than there is");
    }

    /** Both headers, then a plaintext: sealed first, or nothing behind the tag is reached. */
    private static void readEnvelope(byte[] data) {
        if (data.length < Limits.AAD_BYTES) {
            readLane(data);
            return;
        }
        ByteBuffer headers = ByteBuffer.wrap(data, 0, Limits.AAD_BYTES).putLong(64, Keyring.keyId(Fixed.KEY));
        byte[] key = Keyring.linkKey(Fixed.KEY, Fixed.SOURCE, Fixed.TARGET, headers.getInt(8) >>> 8, 0);
        try {
            Cipher cipher = Cipher.getInstance("ChaCha20-Poly1305");
            cipher.init(
                    Cipher.ENCRYPT_MODE,
                    new SecretKeySpec(key, "ChaCha20"),
                    new IvParameterSpec(data, Limits.AAD_BYTES - Limits.NONCE_BYTES, Limits.NONCE_BYTES));
            cipher.updateAAD(data, 0, Limits.AAD_BYTES);
            byte[] envelope = Arrays.copyOf(data, data.length + Limits.TAG_BYTES);
            cipher.doFinal(data, Limits.AAD_BYTES, data.length - Limits.AAD_BYTES, envelope, Limits.AAD_BYTES);
            readLane(envelope);
        } catch (GeneralSecurityException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** The first line, with the MAC that it should have. */
    private static void readEntry(byte[] data) {
        String whole = text(data);
        byte[] line = whole.substring(0, (whole + "\n").indexOf('\n')).getBytes(StandardCharsets.ISO_8859_1);
        byte[] mac =
                Base64.getEncoder().encode(Hashes.hmac(Fixed.RING.registryKeys().get(0), line));
        byte[] file = Arrays.copyOf(line, line.length + mac.length + 2);
        file[line.length] = '\n';
        System.arraycopy(mac, 0, file, line.length + 1, mac.length);
        file[file.length - 1] = '\n';
        Entry.decode(file, Fixed.RING.registryKeys());
    }

    /** What was read can be written, and is then read as the same (W-15). */
    private static void readValue(byte[] data) {
        byte[] written = Values.encode(ValueReader.decode(data, "value"), "value");
        byte[] again = Values.encode(ValueReader.decode(written, "value"), "value");
        require(Arrays.equals(written, again), "a value changed on its way");
    }

    /** Also what is asked of a request that breaks a rule. */
    private static void readRequest(byte[] data) {
        SpcHead.readableId(data);
        SpcRequest.decode(data);
    }

    /** A media type, a NUL, the bytes; JSON names what is wrong to those who know the field. */
    private static void readContent(byte[] data) {
        String whole = text(data);
        int end = (whole + "\0").indexOf('\0');
        String content = whole.substring(Math.min(end + 1, whole.length()));
        if (whole.startsWith(Batch.TYPE + "\0")) {
            Batch.decode(content.getBytes(StandardCharsets.ISO_8859_1));
            return;
        }
        if (!whole.startsWith("application/json\0")) {
            ValueReader.decode(content.getBytes(StandardCharsets.ISO_8859_1), "payload");
            return;
        }
        try {
            Json.parse(content);
        } catch (IllegalArgumentException broken) {
            throw new WireException("BAD_MESSAGE", broken.getMessage());
        }
    }

    private static void readMessage(byte[] data) {
        MessageView message = MessageView.of(data);
        message.traceparent();
        message.labels();
        message.extensions();
        message.isExpired(Long.MAX_VALUE);
        message.payload();
    }

    /** What was read is written as the same, and is put together or refused (G-1, G-2, G-13). */
    private static void readSegment(byte[] data) {
        Segment segment = Segment.read(data);
        Segment again = Segment.read(segment.write());
        require(Arrays.equals(segment.write(), again.write()), "a segment changed on its way");
        new Assembler().receive("analytics", data, 0);
    }

    /** Several, each behind its length in two bytes, as they arrive: what is delivered has its hash (G-12, G-13). */
    private static void readSegments(byte[] data) {
        Assembler assembler = new Assembler();
        for (int at = 0; at + 2 <= data.length; ) {
            int size = Math.min((data[at] & 0xFF) << 8 | data[at + 1] & 0xFF, data.length - at - 2);
            byte[] one = Arrays.copyOfRange(data, at + 2, at + 2 + size);
            at += 2 + size;
            try {
                assembler.receive("analytics", one, at);
            } catch (WireException refused) {
                // The others are read all the same.
            }
        }
    }

    /** The front of a message that came in segments (G-18). */
    private static void readFront(byte[] data) {
        MessageFront front = new MessageFront(data, data.length);
        byte[] value = Arrays.copyOfRange(data, front.start(), data.length);
        MessageView view = MessageView.of(front, () -> value);
        require(Arrays.equals(view.bytes(), data), "a message changed in its store");
    }

    private static void readNames(String name) {
        Names.parseLaneFile(name);
        Names.parseCursor(name);
        Names.parseFence(name);
        Names.parseEntry(name);
        Names.parseClaim(name, "billing");
        Names.matches("etl.*", name);
        if (Names.isNode(name)) {
            require(Names.entryPath("/root", name).startsWith("/root/"), "a name led out of the root");
            NodeId.of(name);
        }
    }

    private static byte[] signed(byte[] data) {
        byte[] key = Fixed.RING.laneKeys(Fixed.SOURCE, Fixed.TARGET).get(0);
        byte[] signed = Arrays.copyOf(data, data.length + MAC_BYTES);
        System.arraycopy(Hashes.hmac(key, data), 0, signed, data.length, MAC_BYTES);
        return signed;
    }

    private static String text(byte[] data) {
        return new String(data, StandardCharsets.ISO_8859_1);
    }

    private static byte[] bytesTo(int end) {
        byte[] bytes = new byte[end];
        for (int index = 0; index < end; index++) {
            bytes[index] = (byte) index;
        }
        return bytes;
    }

    private static void require(boolean holds, String broken) {
        if (!holds) {
            throw new AssertionError(broken);
        }
    }
}
