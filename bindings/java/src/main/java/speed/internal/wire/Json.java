package speed.internal.wire;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON as entries, claims and payloads use it: null, Boolean, Long (BigInteger beyond), Double, String,
 * List, Map.
 *
 * <p>Strict (RFC 8259), with bounded nesting; of a key that occurs twice the last value counts.
 */
public final class Json {
    private static final int MAX_DIGITS = 4300;

    private final String text;
    private final int maxDepth;
    private int at;
    private int depth;

    private Json(String text, int maxDepth) {
        this.text = text;
        this.maxDepth = maxDepth;
    }

    /**
     * The one value in the text.
     *
     * @throws IllegalArgumentException for anything else; it names the place and no content
     */
    public static Object parse(String text) {
        return parse(text, Limits.MAX_JSON_DEPTH);
    }

    /** The same, with at most so many containers inside each other. */
    static Object parse(String text, int maxDepth) {
        Json reader = new Json(text, maxDepth);
        Object value = reader.value();
        reader.skipSpace();
        if (reader.at != text.length()) {
            throw reader.broken("more than one value");
        }
        return value;
    }

    private Object value() {
        skipSpace();
        return switch (peek()) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", Boolean.TRUE);
            case 'f' -> word("false", Boolean.FALSE);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object() {
        enter();
        Map<String, Object> members = new LinkedHashMap<>();
        if (!takes('}')) {
            do {
                skipSpace();
                String key = string();
                expect(':');
                members.put(key, value());
            } while (takes(','));
            expect('}');
        }
        depth--;
        return members;
    }

    private List<Object> array() {
        enter();
        List<Object> items = new ArrayList<>();
        if (!takes(']')) {
            do {
                items.add(value());
            } while (takes(','));
            expect(']');
        }
        depth--;
        return items;
    }

    private void enter() {
        at++;
        if (++depth > maxDepth) {
            throw broken("nesting is too deep");
        }
    }

    private String string() {
        expect('"');
        StringBuilder found = new StringBuilder();
        while (true) {
            char one = next();
            if (one == '"') {
                return wellFormed(found);
            }
            if (one < ' ') {
                throw broken("control character in text");
            }
            found.append(one == '\\' ? escaped() : one);
        }
    }

    /** Text that is text: no half of a surrogate pair. */
    private String wellFormed(StringBuilder found) {
        for (int index = 0; index < found.length(); index++) {
            if (Character.isSurrogate(found.charAt(index))) {
                boolean isPair = index + 1 < found.length()
                        && Character.isSurrogatePair(found.charAt(index), found.charAt(index + 1));
                if (!isPair) {
                    throw broken("half of a surrogate pair");
                }
                index++;
            }
        }
        return found.toString();
    }

    private char escaped() {
        char one = next();
        return switch (one) {
            case '"', '\\', '/' -> one;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> hexadecimal();
            default -> throw broken("unknown escape");
        };
    }

    private char hexadecimal() {
        int value = 0;
        for (int count = 0; count < 4; count++) {
            char digit = next();
            if (!HexFormat.isHexDigit(digit)) { // Character.digit also takes digits of other scripts
                throw broken("bad \\u escape");
            }
            value = value << 4 | HexFormat.fromHexDigit(digit);
        }
        return (char) value;
    }

    private Object number() {
        int start = at;
        takes('-', false);
        int whole = digits();
        boolean leadingZero = whole > 1 && text.charAt(at - whole) == '0';
        boolean isInteger = true;
        if (takes('.', false)) {
            isInteger = false;
            digits();
        }
        if (takes('e', false) || takes('E', false)) {
            isInteger = false;
            if (!takes('+', false)) {
                takes('-', false);
            }
            digits();
        }
        if (leadingZero || isInteger && whole > MAX_DIGITS) {
            throw broken("bad number");
        }
        String digits = text.substring(start, at);
        return isInteger ? integer(digits) : (Object) fraction(digits);
    }

    private double fraction(String digits) {
        double value = Double.parseDouble(digits);
        if (Double.isInfinite(value)) {
            throw broken("a number beyond a double");
        }
        return value;
    }

    private int digits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == start) {
            throw broken("a value is expected");
        }
        return at - start;
    }

    private Object integer(String digits) {
        BigInteger value = new BigInteger(digits);
        if (value.bitLength() < Long.SIZE) {
            return value.longValue();
        }
        fraction(digits); // beyond a double, it is no number either
        return value;
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw broken("a value is expected");
        }
        at += word.length();
        return value;
    }

    private char peek() {
        if (at >= text.length()) {
            throw broken("the text ends too early");
        }
        return text.charAt(at);
    }

    private char next() {
        char one = peek();
        at++;
        return one;
    }

    private void expect(char wanted) {
        if (!takes(wanted)) {
            throw broken("'" + wanted + "' is expected");
        }
    }

    private boolean takes(char wanted) {
        return takes(wanted, true);
    }

    private boolean takes(char wanted, boolean afterSpace) {
        if (afterSpace) {
            skipSpace();
        }
        boolean found = at < text.length() && text.charAt(at) == wanted;
        at += found ? 1 : 0;
        return found;
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private IllegalArgumentException broken(String what) {
        return new IllegalArgumentException("JSON: " + what + " at character " + at);
    }

    // --- writing ---

    /** The text of a value, in ASCII and on one line. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof CharSequence text) {
            writeText(text, out);
        } else if (value instanceof Map<?, ?> map) {
            char before = '{';
            for (Map.Entry<?, ?> member : map.entrySet()) {
                out.append(before);
                writeText(member.getKey().toString(), out);
                out.append(':');
                write(member.getValue(), out);
                before = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            char before = '[';
            for (Object item : items) {
                out.append(before);
                write(item, out);
                before = ',';
            }
            out.append(before == '[' ? "[]" : "]");
        } else {
            out.append(value);
        }
    }

    private static void writeText(CharSequence text, StringBuilder out) {
        out.append('"');
        for (int index = 0; index < text.length(); index++) {
            char one = text.charAt(index);
            if (one == '"' || one == '\\') {
                out.append('\\').append(one);
            } else if (one < ' ' || one > '~') {
                out.append(String.format("\\u%04x", (int) one));
            } else {
                out.append(one);
            }
        }
        out.append('"');
    }
}
