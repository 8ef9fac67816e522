package speed.tool;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.StreamSupport;
import speed.internal.segment.Segment;
import speed.internal.segment.Segment.Shape;
import speed.internal.segment.Source;
import speed.internal.segment.Splitter;
import speed.internal.wire.Block;
import speed.internal.wire.Control;
import speed.internal.wire.Cursor;
import speed.internal.wire.Entry;
import speed.internal.wire.Fence;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.Json;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.SpcRequest;
import speed.internal.wire.SpcResponse;
import speed.internal.wire.Values;
import speed.message.MessageKey;
import speed.tool.PlainJson.Notation;

/**
 * Makes the bytes of the vectors from what they are made of, for other languages to accept: one JSON object a line,
 * {@code {"kind", "name", "hex"}}. Authenticated kinds are made with the first accepted key.
 */
public final class Vectors {
    private static final Path CONTRACT = Path.of("registry_spec/vectors");
    private static final int ROOM = 1 << 17;
    private static final List<String> MESSAGES = List.of("bytes", "everything");

    private final Path directory;

    private Vectors(Path directory) {
        this.directory = directory;
    }

    /**
     * Prints the lines.
     *
     * @param line the directory of the vectors, by default {@code registry_spec/vectors}; or {@code segments}: instead of
     *     all others, the segments of each cut of segments.json; or {@code protected}: messages signed by, or encrypted
     *     to, each secret key of signatures.json and encryption.json; or {@code generated}: such messages with new keys, which
     *     stand beside them
     */
    public static void main(String[] line) throws IOException {
        if (List.of(line).equals(List.of("segments"))) {
            new Vectors(CONTRACT).segments();
            return;
        }
        if (List.of(line).equals(List.of("generated"))) {
            say(ProtectedVectors.generated());
            return;
        }
        if (List.of(line).equals(List.of("protected"))) {
            new Vectors(CONTRACT).protectedMessages();
            return;
        }
        Vectors vectors = new Vectors(line.length > 0 ? Path.of(line[0]) : CONTRACT);
        vectors.each("envelopes", "valid", "envelope", Vectors::envelope);
        vectors.each("entries", "valid", "entry", Vectors::entry);
        vectors.each("cursors", "cursors_valid", "cursor", Vectors::cursor);
        vectors.each("cursors", "fences_valid", "fence", Vectors::fence);
        vectors.each("values", "valid", "value", one -> Values.encode(Notation.value(one.get("value")), "value"));
        vectors.each("payloads", "valid", null, Vectors::payload);
        vectors.each(
                "messages",
                "valid",
                "message",
                one -> MESSAGES.contains(one.get("name")) ? message((Map<?, ?>) one.get("expected")) : null);
    }

    /** Makes and prints the cases of a list; without a kind each case names its own. */
    private void each(String name, String list, String kind, Function<Map<?, ?>, byte[]> maker) throws IOException {
        for (Map<?, ?> one : cases(name, list)) {
            byte[] made = maker.apply(one);
            if (made != null) {
                say(kind == null ? one.get("kind") : kind, one.get("name"), made);
            }
        }
    }

    private List<? extends Map<?, ?>> cases(String name, String list) throws IOException {
        Map<?, ?> file = (Map<?, ?>) Json.parse(Files.readString(directory.resolve(name + ".json")));
        return ((List<?>) file.get(list)).stream().map(one -> (Map<?, ?>) one).toList();
    }

    private static void say(Object kind, Object name, byte[] made) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("kind", kind);
        line.put("name", name);
        line.put("hex", HexFormat.of().formatHex(made));
        System.out.println(Json.write(line));
    }

    private void segments() throws IOException {
        for (Map<?, ?> one : cases("segments", "cut")) {
            Cuts.segments(one).forEach(segment -> say("segment", one.get("name"), segment.write()));
        }
    }

    private void protectedMessages() throws IOException {
        List<Map<?, ?>> records = new ArrayList<>(cases("encryption", "keys"));
        records.addAll(cases("signatures", "trusted"));
        records.stream()
                .map(MessageKey::of)
                .filter(MessageKey::hasSecret)
                .map(ProtectedVectors::of)
                .forEach(Vectors::say);
    }

    private static void say(List<ProtectedVectors.Made> messages) {
        messages.forEach(one -> System.out.println(Json.write(ProtectedVectors.line(one))));
    }

    private static byte[] envelope(Map<?, ?> one) {
        byte[] nonce = Decoding.hex(one.get("nonce"));
        long sequence = sequence(one, "sequence");
        LinkSealer sealer = new LinkSealer(
                Decoding.RING,
                Decoding.SOURCE,
                Decoding.TARGET,
                Sequence.generation(sequence),
                nonces -> System.arraycopy(nonce, 0, nonces, 0, nonce.length));
        Block block = new Block(ROOM);
        int bytes = sealer.seal(
                block,
                0,
                EnvelopeType.of((int) number(one, "type")),
                (int) number(one, "flags"),
                Sequence.counter(sequence),
                number(one, "timestamp_ms"),
                Decoding.hex(one.get("payload")));
        return block.copy(0, bytes);
    }

    private static byte[] entry(Map<?, ?> one) {
        Map<?, ?> stated = (Map<?, ?>) one.get("entry");
        Entry.Process process = new Entry.Process(
                number(stated, "pid"),
                number(stated, "pid_start"),
                text(stated, "pid_namespace"),
                text(stated, "host"),
                text(stated, "boot_id"));
        return new Entry(
                        text(stated, "name"),
                        (int) number(stated, "generation"),
                        process,
                        new Entry.Times(
                                number(stated, "startup_timestamp"),
                                number(stated, "last_heartbeat"),
                                number(stated, "heartbeat_monotonic_ms"),
                                number(stated, "lease"),
                                number(stated, "heartbeat_interval")),
                        new Entry.Published(
                                text(stated, "status"),
                                texts(stated, "fabrics"),
                                texts(stated, "allow"),
                                texts(stated, "deny"),
                                texts(stated, "subscriptions"),
                                textsIfAny(stated, "shared"),
                                textsIfAny(stated, "identities"),
                                textsIfAny(stated, "observers")),
                        text(stated, "language"),
                        text(stated, "version"),
                        textsIfAny(stated, "features"),
                        Boolean.TRUE.equals(stated.get("ephemeral")),
                        stated.get("identity") == null ? "" : text(stated, "identity"))
                .encode(Decoding.RING.registryKeys().get(0), 0);
    }

    private static byte[] cursor(Map<?, ?> one) {
        Map<?, ?> stated = (Map<?, ?>) one.get("cursor");
        List<Cursor.Unfinished> unfinished = ((List<?>) stated.get("unfinished"))
                .stream()
                        .map(item -> (Map<?, ?>) item)
                        .map(item -> new Cursor.Unfinished(
                                sequence(item, "sequence"),
                                segment(item, "generation"),
                                number(item, "offset"),
                                (Boolean) item.get("begun")))
                        .toList();
        return new Cursor(
                        (int) number(stated, "receiver_generation"),
                        segment(stated, "sender_generation"),
                        number(stated, "offset"),
                        sequence(stated, "last_sequence"),
                        unfinished,
                        (Boolean) stated.get("clean"),
                        (Boolean) stated.get("sealed"))
                .encode(Decoding.MAC);
    }

    private static byte[] fence(Map<?, ?> one) {
        Map<?, ?> stated = (Map<?, ?>) one.get("fence");
        return new Fence(
                        (int) number(stated, "new_generation"),
                        segment(stated, "old_generation"),
                        number(stated, "size"))
                .encode(Decoding.MAC);
    }

    private static LaneFile segment(Map<?, ?> stated, String generation) {
        return new LaneFile((int) number(stated, generation), number(stated, "segment"));
    }

    private static byte[] payload(Map<?, ?> one) {
        @SuppressWarnings("unchecked")
        Map<String, Object> fields = (Map<String, Object>) Notation.value(one.get("fields"));
        return switch (text(one, "kind")) {
            case "request" -> request(fields).encode();
            case "response" -> response(fields).encode();
            default -> Control.encode(fields);
        };
    }

    @SuppressWarnings("unchecked")
    private static SpcRequest request(Map<String, Object> fields) {
        return new SpcRequest(
                text(fields, "requestId"),
                text(fields, "service"),
                (Map<String, Object>) fields.get("arguments"),
                text(fields, "caller"),
                (int) number(fields, "generation"),
                number(fields, "deadline"),
                fields.get("bootId") == null ? "" : text(fields, "bootId"),
                fields.get("bootDeadline") == null ? 0 : number(fields, "bootDeadline"),
                text(fields, "traceparent"),
                Boolean.TRUE.equals(fields.get("repeated")));
    }

    private static SpcResponse response(Map<String, Object> fields) {
        String requestId = text(fields, "requestId");
        if (fields.get("status").equals("SUCCESS")) {
            return SpcResponse.success(requestId, fields.get("result"));
        }
        Object details = fields.getOrDefault("details", Map.of());
        return SpcResponse.error(
                requestId, text(fields, "errorCode"), text(fields, "errorMessage"), (Map<?, ?>) details);
    }

    /** The messages with all metadata that a writer sets; others hold what only a reader must know. */
    private static byte[] message(Map<?, ?> expected) {
        return new MessageDraft(
                        text(expected, "message_id"),
                        text(expected, "topic"),
                        text(expected, "namespace"),
                        number(expected, "published_at_ms"),
                        null,
                        MessageDraft.Options.NONE)
                .encode(Decoding.hex(expected.get("payload_hex")));
    }

    private static String text(Map<?, ?> fields, String name) {
        return (String) fields.get(name);
    }

    private static List<String> textsIfAny(Map<?, ?> stated, String name) {
        return stated.get(name) == null ? List.of() : texts(stated, name);
    }

    private static List<String> texts(Map<?, ?> fields, String name) {
        return ((List<?>) fields.get(name)).stream().map(String.class::cast).toList();
    }

    private static long number(Map<?, ?> fields, String name) {
        return (Long) fields.get(name);
    }

    private static long sequence(Map<?, ?> fields, String name) {
        return Long.parseUnsignedLong(text(fields, name), 16);
    }

    /** The payloads of segments.json, made by its formula, and the segments that they are cut into. */
    public static final class Cuts {
        private Cuts() {}

        /** The payload of a case of the list {@code cut}. */
        public static byte[] payload(Map<?, ?> cut) {
            Map<?, ?> made = (Map<?, ?>) cut.get("payload");
            byte[] payload = new byte[number(made, "bytes")];
            int rowBytes = number(made, "row_bytes");
            for (int at = 0; at < payload.length; at++) {
                payload[at] = mixed(at / rowBytes, at % rowBytes);
            }
            int zerosFrom = made.get("zeros_from") == null ? payload.length : number(made, "zeros_from");
            Arrays.fill(payload, zerosFrom, payload.length, (byte) 0);
            return payload;
        }

        /** A byte that looks random and is the same everywhere. */
        private static byte mixed(int row, int column) {
            int x = (int) (row * 2_654_435_761L + column * 40_503L + 12_345);
            x ^= x >>> 15;
            x *= (int) 2_246_822_519L;
            x ^= x >>> 13;
            return (byte) x;
        }

        /** The segments of a case. */
        public static List<Segment> segments(Map<?, ?> cut) {
            byte[] payload = payload(cut);
            Shape shape = new Shape(
                    payload.length,
                    number(cut, "segment_size"),
                    number(cut, "data_segment_count"),
                    number(cut, "parity_segment_count"));
            return StreamSupport.stream(Splitter.cut(Source.of(payload), shape).spliterator(), false)
                    .toList();
        }

        private static int number(Map<?, ?> fields, String name) {
            return ((Long) fields.get(name)).intValue();
        }
    }
}
