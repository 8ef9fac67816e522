package speed.internal.wire;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.errors.WireException;

/**
 * One STREAM envelope (S-28) without its items; one of items, credit and progress is meant.
 *
 * @param number how many items went before these; -1 where it brings none
 * @param items how many it brings
 * @param last whether they are the caller's last ones
 * @param itemsAt byte of the payload at which the items begin
 * @param credit all that was granted; null for none
 * @param progress null for none
 */
public record StreamPart(
        String requestId, long number, int items, boolean last, int itemsAt, Credit credit, Progress progress) {
    /** All that was granted since the call began. */
    public record Credit(long items, long bytes) {}

    /**
     * How far a call is.
     *
     * @param done a Long or a Double, from 0
     * @param total likewise; null where the service does not know it
     */
    public record Progress(Number done, Number total, String note) {}

    private static final int FIX_ITEMS = 15;
    private static final int SHORT_ITEMS = 0xFFFF;
    private static final List<String> ITEMS = List.of("requestId", "number");
    private static final List<String> LAST_ITEMS = List.of("requestId", "number", "last");

    /** Whether it brings items, or the end of them. */
    public boolean bringsItems() {
        return number >= 0;
    }

    // --- writing ---

    /** Items that are encoded already. */
    public static byte[] encodeItems(String requestId, long number, List<byte[]> encoded, boolean last) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", requestId);
        fields.put("number", number);
        if (last) {
            fields.put("last", true);
        }
        fields.put("items", List.of());
        byte[] front = Values.encode(fields, "stream"); // its last byte is the empty array
        byte[] count = arrayHeader(encoded.size());
        int size = encoded.stream().mapToInt(item -> item.length).sum();
        ByteBuffer whole = ByteBuffer.allocate(front.length - 1 + count.length + size);
        whole.put(front, 0, front.length - 1).put(count);
        encoded.forEach(whole::put);
        return whole.array();
    }

    private static byte[] arrayHeader(int count) {
        if (count <= FIX_ITEMS) {
            return new byte[] {(byte) (0x90 | count)};
        }
        return count <= SHORT_ITEMS
                ? ByteBuffer.allocate(3)
                        .put((byte) 0xDC)
                        .putShort((short) count)
                        .array()
                : ByteBuffer.allocate(5).put((byte) 0xDD).putInt(count).array();
    }

    /** All that was granted since the call began. */
    public static byte[] encodeCredit(String requestId, Credit granted) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", requestId);
        fields.put("creditItems", granted.items);
        fields.put("creditBytes", granted.bytes);
        return Values.encode(fields, "stream");
    }

    /** A report; what of its note is too long, or has no representation, is left out. */
    public static byte[] encodeProgress(String requestId, Progress progress) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", requestId);
        fields.put("done", progress.done);
        fields.put("total", progress.total);
        fields.put("note", Values.wellFormed(Values.shortened(progress.note, Limits.MAX_SUMMARY_CHARACTERS)));
        return Values.encode(fields, "stream");
    }

    // --- reading ---

    /** Checks and reads all but the items; BAD_PAYLOAD names what is wrong. */
    public static StreamPart decode(byte[] payload) {
        ValueReader.Front front = ValueReader.decodeFront(payload, "items", Limits.MAX_HEAD_BYTES, "a stream envelope");
        Map<Object, Object> fields = front.fields();
        List<Object> keys = List.copyOf(fields.keySet());
        if (keys.isEmpty() || !keys.get(0).equals("requestId")) {
            throw refused("does not begin with a requestId");
        }
        String requestId = Payloads.requestId(fields);
        if (front.at() >= 0) {
            return items(requestId, front, keys);
        }
        return switch (keys.size() > 1 ? String.valueOf(keys.get(1)) : "") {
            case "creditItems" -> credit(requestId, fields);
            case "done" -> progress(requestId, fields);
            default -> throw refused("holds neither items, nor credit, nor progress");
        };
    }

    private static StreamPart items(String requestId, ValueReader.Front front, List<Object> keys) {
        boolean last = keys.equals(LAST_ITEMS);
        if (!last && !keys.equals(ITEMS)
                || last && !Boolean.TRUE.equals(front.fields().get("last"))) {
            throw refused("has other keys before its items");
        }
        long number = StreamOffer.credit(front.fields().get("number"));
        return new StreamPart(requestId, number, front.items(), last, front.at(), null, null);
    }

    private static StreamPart credit(String requestId, Map<Object, Object> fields) {
        Credit granted = new Credit(
                StreamOffer.credit(fields.get("creditItems")), StreamOffer.credit(fields.get("creditBytes")));
        return new StreamPart(requestId, -1, 0, false, 0, granted, null);
    }

    private static StreamPart progress(String requestId, Map<Object, Object> fields) {
        Number total = fields.get("total") == null ? null : amount(fields.get("total"));
        if (!(fields.get("note") instanceof String note)
                || note.codePointCount(0, note.length()) > Limits.MAX_SUMMARY_CHARACTERS) {
            throw refused("has a note that is no short text");
        }
        Progress told = new Progress(amount(fields.get("done")), total, note);
        return new StreamPart(requestId, -1, 0, false, 0, null, told);
    }

    private static Number amount(Object value) {
        if (value instanceof Long whole && whole >= 0) {
            return whole;
        }
        if (value instanceof Double number && isAmount(number)) {
            return number;
        }
        throw refused("has an amount that is no number from 0");
    }

    /** Whether progress may be told by this number. */
    public static boolean isAmount(double number) {
        return number >= 0 && number < 0x1p63;
    }

    /**
     * The items of an envelope whose front was read; BAD_PAYLOAD.
     *
     * @param views whether large bytes are views of the payload
     */
    public static List<?> decodeItems(byte[] payload, boolean views) {
        return (List<?>)
                ValueReader.decodeMap(payload, "a stream envelope", views).get("items");
    }

    private static WireException refused(String what) {
        return new WireException("BAD_PAYLOAD", "a stream envelope " + what);
    }
}
