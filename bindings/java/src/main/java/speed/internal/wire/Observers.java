package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import speed.errors.ConfigurationException;
import speed.errors.InvalidNameException;

/** Who may look at all nodes of a root without a grant of each: the text of its owner's file. */
public final class Observers {
    /** What is in the file of a root that was just made: speedd and the operator's commands may look. */
    private static final String FIRST_TEXT = """
        # Who may look at all nodes of this root without a grant of each: ping them, and ask for their figures.
        # A node name, or a family such as cli.*, in each line. Nodes read this file again with each heartbeat.
        speedd
        cli.*
        """;

    private Observers() {}

    /** The text of a new file. */
    public static byte[] first() {
        return FIRST_TEXT.getBytes(StandardCharsets.US_ASCII);
    }

    /** The names and families in a text, sorted and once each; ConfigurationException says what is wrong. */
    public static List<String> parse(byte[] text) {
        if (text.length > Limits.MAX_OBSERVERS_BYTES) {
            throw new ConfigurationException(
                    "more than " + Limits.MAX_OBSERVERS_BYTES + " bytes: name families such as 'cli.*'");
        }
        List<String> found = new ArrayList<>();
        String[] lines = new String(text, StandardCharsets.ISO_8859_1).split("\n", -1);
        for (int index = 0; index < lines.length; index++) {
            String pattern = pattern(lines[index]);
            if (!pattern.isEmpty()) {
                found.add(checked(pattern, index + 1));
            }
        }
        if (found.size() > Limits.MAX_OBSERVERS) {
            throw new ConfigurationException(
                    "more than " + Limits.MAX_OBSERVERS + " names: name families such as 'cli.*'");
        }
        return found.stream().distinct().sorted().toList();
    }

    /** What a line says, without a comment and the blanks around it. */
    private static String pattern(String line) {
        int comment = line.indexOf('#');
        String text = KeyFile.withoutTrailingSpace(comment < 0 ? line : line.substring(0, comment));
        int start = 0;
        while (start < text.length() && " \t\r".indexOf(text.charAt(start)) >= 0) {
            start++;
        }
        return text.substring(start);
    }

    private static String checked(String pattern, int number) {
        try {
            return Names.checkGrant(pattern);
        } catch (InvalidNameException wrong) {
            throw new ConfigurationException("line " + number + " is neither a node name nor a family such as 'cli.*'");
        }
    }
}
