package speed.internal.wire;

/** A value that is not what a type asks for. Says where it stands and of what kind it is, never the value. */
public final class Misfit extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String expected;
    private final String given;

    private Misfit(String message, String expected, String given) {
        super(message, null, false, false);
        this.expected = expected;
        this.given = given;
    }

    static Misfit of(Object path, String expected, String given) {
        return new Misfit(path + " must be " + expected + ", not " + given, expected, given);
    }

    static Misfit missing(Object path, String expected) {
        return new Misfit(path + " is missing: it must be " + expected, expected, "nothing");
    }

    /** The type that was asked for. */
    public String expected() {
        return expected;
    }

    /** The kind of the value instead. */
    public String given() {
        return given;
    }
}
