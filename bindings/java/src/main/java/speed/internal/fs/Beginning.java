package speed.internal.fs;

/** Whether the beginning of a request was committed. */
public enum Beginning {
    /** It is written, and no successor had sealed the cursor by then: the request may begin. */
    WRITTEN,
    /** It could not be written: the request must not begin. */
    UNWRITTEN,
    /** A successor reads this lane: this process was replaced, and nothing begins any more. */
    REPLACED
}
