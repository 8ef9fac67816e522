package speed.internal.fs;

/** What was found on the way to a root or a key file, and the command that mends it, if one does. */
final class UntrustedException extends Exception {
    private static final long serialVersionUID = 1L;

    private final String cure;

    UntrustedException(String found, String cure) {
        super(found);
        this.cure = cure;
    }

    UntrustedException(String found) {
        this(found, "");
    }

    /** What was found and what to do: the cure, or else something other. */
    String told(String otherwise) {
        return getMessage() + ": " + (cure.isEmpty() ? "" : cure + ", or ") + otherwise;
    }
}
