package speed.columns;

import speed.errors.WireException;

/**
 * A column is of another kind than it is read as. A service that lets it pass refuses its caller's arguments where the column
 * is one of them, and has failed itself where it is not.
 */
public final class WrongKindException extends WireException {
    private static final long serialVersionUID = 1L;

    private final transient Object column;
    /** What the column is read as. */
    private final Kind expected;
    /** What it is. */
    private final Kind given;

    WrongKindException(Object column, Kind expected, Kind given) {
        super("BAD_PAYLOAD", "a column is of " + given + ", not " + expected);
        this.column = column;
        this.expected = expected;
        this.given = given;
    }

    /**
     * Whether a value is the column that was read: itself, not one that is equal.
     *
     * @param value any
     * @return true if it is
     */
    public boolean isOf(Object value) {
        return value == column;
    }

    /**
     * What the column was read as.
     *
     * @return the kind that it is not
     */
    public Kind expected() {
        return expected;
    }

    /**
     * What the column is.
     *
     * @return its kind
     */
    public Kind given() {
        return given;
    }
}
