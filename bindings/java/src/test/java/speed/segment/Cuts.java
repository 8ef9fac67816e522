package speed.segment;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.StreamSupport;
import speed.wire.Contract;

/** The payloads of segments.json, made by its formula, and their segments. */
public final class Cuts {
    private static final Map<String, Contract> BY_NAME = new HashMap<>();

    static {
        Contract.vectors("segments").cases("cut").forEach(one -> BY_NAME.put(one.text("name"), one));
    }

    private Cuts() {}

    static byte[] payload(Contract cut) {
        Contract made = cut.object("payload");
        byte[] payload = formula(made.number("rows"), made.number("row_bytes"), (int) made.number("bytes"));
        int zerosFrom = made.get("zeros_from") instanceof Long from ? from.intValue() : payload.length;
        Arrays.fill(payload, zerosFrom, payload.length, (byte) 0);
        return payload;
    }

    /** Bytes that look random and are the same everywhere. */
    public static byte[] formula(long rows, long rowBytes, int bytes) {
        byte[] payload = new byte[bytes];
        for (int at = 0; at < Math.min(bytes, rows * rowBytes); at++) {
            int x = (int) (at / rowBytes * 2654435761L + at % rowBytes * 40503 + 12345);
            x ^= x >>> 15;
            x *= (int) 2246822519L;
            x ^= x >>> 13;
            payload[at] = (byte) x;
        }
        return payload;
    }

    static byte[] payload(String name) {
        return payload(BY_NAME.get(name));
    }

    static List<Segment> segments(Contract cut) {
        byte[] payload = payload(cut);
        Shape shape = new Shape(payload.length, (int) cut.number("segment_size"),
                (int) cut.number("data_segment_count"), (int) cut.number("parity_segment_count"));
        return list(Splitter.cut(Source.of(payload), shape));
    }

    static List<Segment> segments(String name) {
        return segments(BY_NAME.get(name));
    }

    static List<Segment> list(Iterable<Segment> segments) {
        return StreamSupport.stream(segments.spliterator(), false).toList();
    }
}
