package speed.tool;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.StreamSupport;
import speed.internal.segment.Segment;
import speed.internal.segment.Shape;
import speed.internal.segment.Source;
import speed.internal.segment.Splitter;

/** The payloads of segments.json, made by its formula, and the segments that they are cut into. */
public final class Cuts {
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
        Shape shape = new Shape(payload.length, number(cut, "segment_size"), number(cut, "data_segment_count"),
                number(cut, "parity_segment_count"));
        return StreamSupport.stream(Splitter.cut(Source.of(payload), shape).spliterator(), false).toList();
    }

    private static int number(Map<?, ?> fields, String name) {
        return ((Long) fields.get(name)).intValue();
    }
}
