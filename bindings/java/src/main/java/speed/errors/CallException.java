package speed.errors;

import java.util.Map;

/** A call failed on the other side. */
public class CallException extends SpeedException {
    private static final long serialVersionUID = 1L;

    private final transient Map<String, Object> details;

    CallException(String code, String message, Map<String, Object> details) {
        super(code, message);
        this.details = details;
    }

    /**
     * What the other side added.
     *
     * @return a map, maybe empty
     */
    public final Map<String, Object> details() {
        return details == null ? Map.of() : details;
    }
}
