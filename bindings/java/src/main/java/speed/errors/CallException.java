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
     * The exception for an SPC code; an unknown code reads as INTERNAL_ERROR (S-8).
     *
     * @param code as received
     * @param message as received
     * @param details as received
     * @return the exception of that code
     */
    public static CallException of(String code, String message, Map<String, Object> details) {
        return switch (code) {
            case "SERVICE_NOT_FOUND" -> new ServiceNotFoundException(message, details);
            case "ACCESS_DENIED" -> new AccessDeniedException(message, details);
            case "INVALID_ARGUMENTS" -> new InvalidArgumentsException(message, details);
            case "EXECUTION_FAILED" -> new ExecutionFailedException(message, details);
            case "TIMEOUT" -> new CallTimeoutException(message, details);
            case "SEGMENTS_LOST" -> new SegmentsLostException(message, details);
            default -> new InternalException(message, details);
        };
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
