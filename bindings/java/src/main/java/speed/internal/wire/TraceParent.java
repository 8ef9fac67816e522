package speed.internal.wire;

import speed.errors.WireException;

/** The parts of a W3C traceparent: lower-case hexadecimal ids and the flags byte. */
public record TraceParent(String traceId, String spanId, int flags) {
    private static final int LENGTH = 55;

    /** The parts of the text; later versions are read by their first 55 characters. BAD_MESSAGE otherwise. */
    public static TraceParent parse(String text) {
        if (text.length() < LENGTH || !isHex(text, 0, 2) || !isHex(text, 53, 55)
                || text.charAt(2) != '-' || text.charAt(35) != '-' || text.charAt(52) != '-') {
            throw invalid("is not of the form 00-<32 hex>-<16 hex>-<2 hex>, in lower case");
        }
        boolean longer = text.length() > LENGTH;
        boolean isFirstVersion = text.startsWith("00");
        if (text.startsWith("ff") || longer && (isFirstVersion || text.charAt(LENGTH) != '-')) {
            throw invalid("has a forbidden version or text after the flags");
        }
        TraceParent parsed = new TraceParent(
                text.substring(3, 35), text.substring(36, 52), Integer.parseInt(text.substring(53, 55), 16));
        if (!parsed.isValid()) {
            throw invalid("has an id that is not lower-case hex or is all zero");
        }
        return parsed;
    }

    /** Whether both ids have W3C form and are not all zero, and the flags are one byte. */
    public boolean isValid() {
        return traceId.length() == 32 && spanId.length() == 16 && isHex(traceId, 0, 32) && isHex(spanId, 0, 16)
                && !traceId.equals("0".repeat(32)) && !spanId.equals("0".repeat(16)) && flags >= 0 && flags <= 255;
    }

    @Override
    public String toString() {
        return String.format("00-%s-%s-%02x", traceId, spanId, flags);
    }

    private static boolean isHex(String text, int from, int to) {
        for (int index = from; index < to; index++) {
            char one = text.charAt(index);
            if (!(one >= '0' && one <= '9' || one >= 'a' && one <= 'f')) {
                return false;
            }
        }
        return true;
    }

    private static WireException invalid(String why) {
        return new WireException("BAD_MESSAGE", "traceparent: " + why);
    }
}
