package speed.wire;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Text as UTF-8, strictly: what is no text is refused, not replaced. */
final class Utf8 {
    private static final char REPLACEMENT = '\uFFFD';

    private Utf8() {}

    /** The text of some bytes. */
    static String decode(byte[] data, int from, int length) throws CharacterCodingException {
        String text = new String(data, from, length, StandardCharsets.UTF_8);
        if (text.indexOf(REPLACEMENT) < 0) {
            return text;
        }
        // the sender's own character, or one put in the place of broken bytes
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data, from, length)).toString();
    }

    /** The bytes of a text; a lone surrogate has none. */
    static byte[] encode(String text) throws CharacterCodingException {
        ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
        byte[] data = new byte[encoded.remaining()];
        encoded.get(data);
        return data;
    }

    static boolean isAscii(String text) {
        for (int index = 0; index < text.length(); index++) {
            if (text.charAt(index) > 127) {
                return false;
            }
        }
        return true;
    }
}
