package speed;

import java.util.Map;

/**
 * What a service answers: a result, or an error code of {@code codes.json} with a message and details. Immutable, but
 * for what it holds, which must not change once it is returned.
 *
 * @param result any value, meaningless with an error
 * @param errorCode an SPC code, null for a result
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
     * @param code an SPC code; none is INTERNAL_ERROR
     * @param message what happened; null for nothing
     * @param details further values; null for none
     * @return the answer
     */
    public static Response error(String code, String message, Map<String, Object> details) {
        return new Response(null, code == null ? "INTERNAL_ERROR" : code, message, details);
    }

    /**
     * An error without details.
     *
     * @param code an SPC code
     * @param message what happened
     * @return the answer
     */
    public static Response error(String code, String message) {
        return error(code, message, Map.of());
    }
}
