package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import speed.errors.KeyFileException;

/** The text of a key file: {@code SPEED-KEY-V1}, a blank line, Base64 keys, the sealing one first. */
public final class KeyFile {
    public static final int MAX_BYTES = 4096;
    private static final String FIRST_LINE = "SPEED-KEY-V1";
    private static final String FIX = "; make one with `speed key new`";

    private KeyFile() {}

    /** The keys of a key file; the error names the line, never its content. */
    public static List<byte[]> parse(byte[] text) {
        String[] lines = new String(text, StandardCharsets.ISO_8859_1).split("\n", -1);
        for (int index = 0; index < lines.length; index++) {
            lines[index] = withoutTrailingSpace(lines[index]);
        }
        require(lines[0].equals(FIRST_LINE), "line 1 of the key file is not " + FIRST_LINE);
        require(lines.length > 1 && lines[1].isEmpty(), "line 2 of the key file is not blank");
        List<byte[]> keys = new ArrayList<>();
        for (int index = 2; index < lines.length; index++) {
            if (!lines[index].isEmpty()) {
                byte[] key = parseKey(lines[index], index + 1);
                require(keys.stream().noneMatch(known -> Arrays.equals(known, key)), "the key file has a key twice");
                keys.add(key);
                require(keys.size() <= Limits.MAX_KEYS, "the key file has more than " + Limits.MAX_KEYS + " keys");
            }
        }
        require(!keys.isEmpty(), "the key file has no key after line 2");
        return keys;
    }

    /** The text of a file with these keys. */
    public static byte[] format(List<byte[]> keys) {
        StringBuilder text = new StringBuilder(FIRST_LINE + "\n\n");
        keys.forEach(key -> text.append(Base64.getEncoder().encodeToString(key)).append('\n'));
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    private static byte[] parseKey(String line, int number) {
        try {
            byte[] key = Base64.getDecoder().decode(line);
            boolean canonical = Base64.getEncoder().encodeToString(key).equals(line);
            require(
                    key.length == Limits.KEY_BYTES && canonical,
                    "line " + number + " of the key file is not the Base64 of 32 bytes");
            return key;
        } catch (IllegalArgumentException notBase64) {
            throw new KeyFileException("line " + number + " of the key file is not Base64" + FIX);
        }
    }

    static String withoutTrailingSpace(String line) {
        int end = line.length();
        while (end > 0 && " \t\r".indexOf(line.charAt(end - 1)) >= 0) {
            end--;
        }
        return line.substring(0, end);
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new KeyFileException(what + FIX);
        }
    }
}
