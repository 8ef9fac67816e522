package speed.fuzz;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import speed.internal.wire.Batch;
import speed.internal.wire.Contract;

/** The bytes of all vectors, valid or not, as inputs of the decoders; without the MAC that a decoder adds. */
final class Seeds {
    record Seed(Decoder decoder, byte[] data) {}

    private static final int MAC_BYTES = 16;

    private final List<Seed> seeds = new ArrayList<>();

    private Seeds() {}

    static List<Seed> all() {
        Seeds seeds = new Seeds();
        seeds.addPayloads();
        seeds.addFiles();
        seeds.addNames();
        return seeds.seeds;
    }

    private void add(Decoder decoder, byte[] data) {
        seeds.add(new Seed(decoder, data));
    }

    private static List<Contract> cases(String file, String... lists) {
        Contract vectors = Contract.vectors(file);
        return Arrays.stream(lists)
                .flatMap(list -> vectors.cases(list).stream())
                .toList();
    }

    private void addPayloads() {
        for (Contract one : cases("payloads", "valid", "invalid")) {
            add(Decoder.valueOf(one.text("kind").toUpperCase(Locale.ROOT)), one.bytes("hex"));
        }
        cases("values", "valid", "also_read", "invalid").forEach(one -> add(Decoder.VALUE, one.bytes("hex")));
        for (Contract one : cases("messages", "valid", "invalid")) {
            add(Decoder.MESSAGE, one.bytes("hex"));
            add(Decoder.FRONT, one.bytes("hex"));
        }
        cases("batches", "written", "read", "refused")
                .forEach(one -> add(Decoder.CONTENT, typed(Batch.TYPE, one.bytes("hex"))));
        cases("topics", "records_valid", "records_invalid").forEach(one -> add(Decoder.TOPIC, one.bytes("hex")));
        for (String file : List.of("signatures", "encryption")) {
            cases(file, "valid", "invalid").forEach(one -> add(Decoder.PROTECTED, one.bytes("hex")));
        }
        ByteArrayOutputStream several = new ByteArrayOutputStream();
        cases("segments", "also_read", "invalid").forEach(one -> {
            byte[] segment = one.bytes("hex");
            add(Decoder.SEGMENT, segment);
            several.write(segment.length >> 8);
            several.write(segment.length);
            several.writeBytes(segment);
        });
        add(Decoder.SEGMENTS, several.toByteArray());
        cases("envelopes", "valid", "invalid").forEach(one -> {
            byte[] envelope = one.bytes("envelope");
            add(Decoder.LANE, envelope);
            add(Decoder.ENVELOPE, Arrays.copyOf(envelope, Math.max(0, envelope.length - MAC_BYTES)));
        });
    }

    private void addFiles() {
        for (Contract one : cases("entries", "valid", "invalid")) {
            byte[] line = firstLine(one.bytes("content"));
            add(Decoder.ENTRY, line);
            add(Decoder.CONTENT, typed("application/json", line));
        }
        cases("cursors", "cursors_valid", "cursors_invalid").forEach(one -> add(Decoder.CURSOR, withoutMac(one)));
        cases("cursors", "fences_valid", "fences_invalid").forEach(one -> add(Decoder.FENCE, withoutMac(one)));
        for (Contract one : cases("keys", "valid", "invalid")) {
            add(Decoder.KEYFILE, one.text("text").getBytes(StandardCharsets.UTF_8));
        }
    }

    private void addNames() {
        Contract.vectors("names").values().values().forEach(this::addTexts);
    }

    /** All texts in some JSON: names of nodes, files and topics. */
    private void addTexts(Object json) {
        if (json instanceof String text) {
            add(Decoder.NAME, text.getBytes(StandardCharsets.UTF_8));
        } else if (json instanceof List<?> items) {
            items.forEach(this::addTexts);
        } else if (json instanceof Map<?, ?> map) {
            map.values().forEach(this::addTexts);
        }
    }

    private static byte[] typed(String mediaType, byte[] data) {
        return (mediaType + "\0" + new String(data, StandardCharsets.ISO_8859_1)).getBytes(StandardCharsets.ISO_8859_1);
    }

    private static byte[] firstLine(byte[] file) {
        int end = 0;
        while (end < file.length && file[end] != '\n') {
            end++;
        }
        return Arrays.copyOf(file, end);
    }

    private static byte[] withoutMac(Contract one) {
        byte[] whole = one.bytes("hex");
        return Arrays.copyOf(whole, Math.max(0, whole.length - MAC_BYTES));
    }
}
