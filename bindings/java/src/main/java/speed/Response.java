package speed;

import java.util.Map;

/**
 * What a service answers: a result, or an error with a code, a message and details. Immutable, but
 * for what it holds, which must not change once it is returned.
 *
 * @param result any value, meaningless with an error
 * @param errorCode a code, null for a result
 * @param errorMessage what happened
 * @param details further values, text keys
 */
public record Response(Object result, String errorCode, String errorMessage, Map<String, Object> details) {
    /**
     * A result.
     *
     * @param result any value
     * @return the answer
     */
    public static Response of(Object result) {
        return new Response(result, null, "", Map.of());
    }

    /**
     * An error.
     *
     * @param code one of SPEED's codes, or the service's own: a capital letter, then up to 63 of A-Z, 0-9 and _. The
     *         caller gets the latter as an ApplicationException. Another one ends the call with EXECUTION_FAILED.
     * @param message what happened; null for nothing
     * @param details further values; null for none
     * @return the answer
     */
    public static Response error(String code, String message, Map<String, Object> details) {
        return new Response(null, code == null ? "" : code, message, details);
    }

    /**
     * An error without details.
     *
     * @param code one of SPEED's codes, or the service's own
     * @param message what happened
     * @return the answer
     */
    public static Response error(String code, String message) {
        return error(code, message, Map.of());
    }
}
