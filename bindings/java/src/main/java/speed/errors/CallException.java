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
     * The exception for an SPC code; an unknown code reads as INTERNAL_ERROR.
     *
     * @param code as received
     * @param message as received
     * @param details as received
     * @return the exception of that code
     */
    public static CallException of(String code, String message, Map<String, Object> details) {
        CallException error = switch (code) {
            // generated from registry_spec/codes.json by scripts/generate
            case "SERVICE_NOT_FOUND" -> new ServiceNotFoundException(message, details);
            case "ACCESS_DENIED" -> new AccessDeniedException(message, details);
            case "INVALID_ARGUMENTS" -> new InvalidArgumentsException(message, details);
            case "EXECUTION_FAILED" -> new ExecutionFailedException(message, details);
            case "TIMEOUT" -> new CallTimeoutException(message, details);
            case "SEGMENTS_LOST" -> new SegmentsLostException(message, details);
            case "WITHDRAWN" -> new CallWithdrawnException(message, details);
            default -> new InternalException(message, details);
            // end of what is generated
        };
        error.about(executionOf(error));
        return error;
    }

    private static Execution executionOf(CallException error) {
        return switch (error.code()) {
            case "SERVICE_NOT_FOUND", "ACCESS_DENIED", "INVALID_ARGUMENTS", "SEGMENTS_LOST" -> Execution.NOT_BEGUN;
            case "EXECUTION_FAILED" -> Execution.RAN;
            default -> "queued".equals(error.details().get("phase")) ? Execution.NOT_BEGUN : Execution.MAY_HAVE_RUN;
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
