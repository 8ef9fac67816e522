package speed.internal.message;

/** Texts of a peer as an error shows them: so many characters, none that a terminal obeys. */
public final class Shown {
    private static final int MAX_CHARACTERS = 64;

    private Shown() {}

    public static String text(String text) {
        return text.substring(0, Math.min(text.length(), MAX_CHARACTERS)).replaceAll("\\p{Cntrl}", "?");
    }
}
