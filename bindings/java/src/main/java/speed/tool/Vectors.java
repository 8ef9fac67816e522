package speed.tool;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.wire.Block;
import speed.wire.Cursor;
import speed.wire.Entry;
import speed.wire.EnvelopeType;
import speed.wire.Fence;
import speed.wire.Json;
import speed.wire.Keyring;
import speed.wire.LaneMac;
import speed.wire.LinkSealer;
import speed.wire.MessageView;
import speed.wire.NodeId;
import speed.wire.SegmentId;
import speed.wire.Sequence;
import speed.wire.SpcRequest;
import speed.wire.SpcResponse;
import speed.wire.ValueReader;
import speed.wire.Values;

/**
 * Writes what this implementation makes of the inputs of {@code registry_spec/vectors}, for other languages to accept:
 * one JSON object with the lists envelopes, entries, payloads, cursors, fences and values, bytes in hexadecimal.
 */
public final class Vectors {
    private static final int ROOM = 1 << 17;

    private final Path directory;

    private Vectors(Path directory) {
        this.directory = directory;
    }

    /**
     * Prints the object.
     *
     * @param line the directory of the vectors
     */
    public static void main(String[] line) throws IOException {
        Vectors vectors = new Vectors(Path.of(line.length > 0 ? line[0] : "registry_spec/vectors"));
        Map<String, Object> made = new LinkedHashMap<>();
        made.put("language", "java");
        made.put("envelopes", vectors.each("envelopes", "valid", vectors::envelope));
        made.put("entries", vectors.each("entries", "valid", vectors::entry));
        made.put("payloads", vectors.each("payloads", "valid", vectors::payload));
        made.put("cursors", vectors.each("cursors", "cursors_valid", vectors::cursor));
        made.put("fences", vectors.each("cursors", "fences_valid", vectors::fence));
        made.put("values", vectors.each("values", "valid", (file, one) -> Values.encode(value(one), "value")));
        made.put("messages", vectors.each("messages", "valid", (file, one) -> MessageView.of(hex(one, "hex")).bytes()));
        System.out.println(Json.write(made));
    }

    /** Makes the bytes of one case of a file. */
    private interface Maker {
        byte[] make(Map<?, ?> file, Map<?, ?> one);
    }

    private List<Object> each(String name, String list, Maker maker) throws IOException {
        Map<?, ?> file = (Map<?, ?>) Json.parse(Files.readString(directory.resolve(name + ".json")));
        List<Object> made = new ArrayList<>();
        for (Object item : (List<?>) file.get(list)) {
            Map<?, ?> one = (Map<?, ?>) item;
            made.add(Map.of("name", one.get("name"), "hex", HexFormat.of().formatHex(maker.make(file, one))));
        }
        return made;
    }

    private byte[] envelope(Map<?, ?> file, Map<?, ?> one) {
        byte[] nonce = hex(one, "nonce");
        long sequence = Long.parseUnsignedLong((String) one.get("sequence"), 16);
        LinkSealer sealer = new LinkSealer(new Keyring(List.of(hex(one, "key"))), source(file), target(file),
                Sequence.generation(sequence), nonces -> System.arraycopy(nonce, 0, nonces, 0, nonce.length));
        Block block = new Block(ROOM);
        int bytes = sealer.seal(block, 0, EnvelopeType.of(number(one, "type")), number(one, "flags"),
                Sequence.counter(sequence), (Long) one.get("timestamp_ms"), hex(one, "payload"));
        return block.copy(0, bytes);
    }

    private byte[] entry(Map<?, ?> file, Map<?, ?> one) {
        List<byte[]> keys = ring(file).registryKeys();
        byte[] content = hex(one, "content");
        return Entry.decode(content, keys).encode(keys.get(0), number(one, "bytes"));
    }

    /** Read as its kind and written again. */
    private byte[] payload(Map<?, ?> file, Map<?, ?> one) {
        byte[] payload = hex(one, "hex");
        return switch ((String) one.get("kind")) {
            case "request" -> SpcRequest.decode(payload).encode();
            case "response" -> SpcResponse.decode(payload).encode();
            default -> Values.encode(ValueReader.decode(payload, "payload"), "payload");
        };
    }

    private byte[] cursor(Map<?, ?> file, Map<?, ?> one) {
        return Cursor.decode(hex(one, "hex"), mac(file)).encode(mac(file));
    }

    private byte[] fence(Map<?, ?> file, Map<?, ?> one) {
        Map<?, ?> stated = (Map<?, ?>) one.get("fence");
        SegmentId last = new SegmentId(number(stated, "old_generation"), (Long) stated.get("segment"));
        return new Fence(number(stated, "new_generation"), last, (Long) stated.get("size")).encode(mac(file));
    }

    private static Object value(Map<?, ?> one) {
        return ValueReader.decode(hex(one, "hex"), "value");
    }

    private static LaneMac mac(Map<?, ?> file) {
        return new LaneMac(ring(file).laneKeys(source(file), target(file)));
    }

    private static Keyring ring(Map<?, ?> file) {
        List<?> keys = (List<?>) file.get("accepted_keys");
        return new Keyring(keys.stream().map(key -> HexFormat.of().parseHex((String) key)).toList());
    }

    private static NodeId source(Map<?, ?> file) {
        return NodeId.of((String) file.get("source"));
    }

    private static NodeId target(Map<?, ?> file) {
        return NodeId.of((String) file.get("target"));
    }

    private static byte[] hex(Map<?, ?> one, String name) {
        return HexFormat.of().parseHex((String) one.get(name));
    }

    private static int number(Map<?, ?> one, String name) {
        return ((Long) one.get(name)).intValue();
    }
}
