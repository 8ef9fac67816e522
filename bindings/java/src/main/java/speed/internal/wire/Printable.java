package speed.internal.wire;

/** Text of others as a terminal or a log may have it: what would act there is shown by its number. */
public final class Printable {
    /** First and last code point of each range of what acts. */
    private static final int[] ACTING = {
        0x0, 0x1f, 0x7f, 0x9f, 0xad, 0xad, 0x600, 0x605, 0x61c, 0x61c, 0x6dd, 0x6dd, 0x70f, 0x70f, 0x890, 0x891, 0x8e2,
        0x8e2, 0x180e, 0x180e, 0x200b, 0x200f, 0x2028, 0x202e, 0x2060, 0x206f, 0xd800, 0xdfff, 0xfdd0, 0xfdef, 0xfeff,
        0xfeff, 0xfff0, 0xfffb, 0xfffe, 0xffff, 0x110bd, 0x110bd, 0x110cd, 0x110cd, 0x13430, 0x1343f, 0x1bca0, 0x1bca3,
        0x1d173, 0x1d17a, 0x1fffe, 0x1ffff, 0x2fffe, 0x2ffff, 0x3fffe, 0x10ffff,
    };

    private Printable() {}

    /** The text with escapes for what acts, on one line. */
    public static String text(String text) {
        return text(text, Integer.MAX_VALUE);
    }

    /** The same, cut behind so many characters of the text. */
    public static String text(String text, int maxCharacters) {
        StringBuilder shown = new StringBuilder(text.length());
        int left = maxCharacters;
        for (int at = 0; at < text.length(); left--) {
            if (left == 0) {
                return shown.append('…').toString();
            }
            int code = text.codePointAt(at);
            if (acts(code)) {
                shown.append(escape(code));
            } else {
                shown.appendCodePoint(code);
            }
            at += Character.charCount(code);
        }
        return shown.toString();
    }

    private static boolean acts(int code) {
        for (int at = 0; at < ACTING.length && code >= ACTING[at]; at += 2) {
            if (code <= ACTING[at + 1]) {
                return true;
            }
        }
        return false;
    }

    private static String escape(int code) {
        return switch (code) {
            case '\t' -> "\\t";
            case '\n' -> "\\n";
            case '\r' -> "\\r";
            default -> String.format(code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
        };
    }
}
