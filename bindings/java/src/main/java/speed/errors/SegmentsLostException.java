package speed.errors;

import java.util.Map;

/** The other side could not put a payload together from its segments: lost, expired, or no room (G-19). */
public final class SegmentsLostException extends CallException {
    private static final long serialVersionUID = 1L;

    /**
     * An error with the code SEGMENTS_LOST.
     *
     * @param message what happened and what to do
     * @param details what the other side added
     */
    public SegmentsLostException(String message, Map<String, Object> details) {
        super("SEGMENTS_LOST", message, details);
    }
}
