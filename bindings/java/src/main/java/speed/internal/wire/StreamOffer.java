package speed.internal.wire;

import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.WireException;

/**
 * What travels beside a call (S-27).
 *
 * @param items that its caller takes at first; 0 for none
 * @param bytes of them that it takes
 * @param sends whether it sends items
 * @param progress whether it wants to know how far the service is
 */
public record StreamOffer(long items, long bytes, boolean sends, boolean progress) {
    /** Items or bytes that can be granted in all. */
    public static final long MAX_CREDIT = 1L << 53;

    /** Whether the caller takes items. */
    public boolean wantsItems() {
        return items > 0 && bytes > 0;
    }

    /** Whether items travel, in one direction or in both: such a call is never sent again. */
    public boolean isStream() {
        return wantsItems() || sends;
    }

    /** As a map of the request, without what says nothing. */
    Map<String, Object> travelling() {
        Map<String, Object> fields = new LinkedHashMap<>();
        putCredit(fields, "items", items);
        putCredit(fields, "bytes", bytes);
        putFlag(fields, "sends", sends);
        putFlag(fields, "progress", progress);
        return fields;
    }

    private static void putCredit(Map<String, Object> fields, String name, long amount) {
        if (amount > 0) {
            fields.put(name, amount);
        }
    }

    private static void putFlag(Map<String, Object> fields, String name, boolean flag) {
        if (flag) {
            fields.put(name, true);
        }
    }

    /** Checks and reads the map of a request; null for none. BAD_PAYLOAD names what is wrong. */
    static StreamOffer decode(Object value) {
        if (value == null) {
            return null;
        }
        if (!(value instanceof Map<?, ?> fields)) {
            throw new WireException("BAD_PAYLOAD", "stream is no map");
        }
        return new StreamOffer(
                fields.get("items") == null ? 0 : credit(fields.get("items")),
                fields.get("bytes") == null ? 0 : credit(fields.get("bytes")),
                flag(fields, "sends"),
                flag(fields, "progress"));
    }

    /** A total of items or bytes. */
    static long credit(Object value) {
        if (value instanceof Long credit && credit >= 0 && credit <= MAX_CREDIT) {
            return credit;
        }
        throw new WireException("BAD_PAYLOAD", "a credit is no integer from 0 to 2^53");
    }

    private static boolean flag(Map<?, ?> fields, String name) {
        Object value = fields.get(name);
        if (value == null || value instanceof Boolean) {
            return Boolean.TRUE.equals(value);
        }
        throw new WireException("BAD_PAYLOAD", name + " of stream is neither true nor false");
    }
}
