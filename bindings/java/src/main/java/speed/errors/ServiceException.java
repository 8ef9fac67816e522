package speed.errors;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * An error of a service's own, as a class with fields: a service throws one, and a caller that declared it catches it.
 * Callers that did not, and those of other languages, get its code, and its fields as details.
 *
 * <pre>{@code
 * final class InsufficientFunds extends ServiceException {
 *     static final String CODE = "INSUFFICIENT_FUNDS";
 *
 *     final BigDecimal balance;
 *
 *     InsufficientFunds(BigDecimal balance) {
 *         super(CODE, "there is not enough money", Map.of("balance", balance));
 *         this.balance = balance;
 *     }
 *
 *     InsufficientFunds(ApplicationException received) {
 *         super(received);
 *         balance = Value.as(received.details().get("balance"), BigDecimal.class);
 *     }
 * }
 *
 * ServiceException.declare(InsufficientFunds.CODE, InsufficientFunds::new); // once, before the first call
 * }</pre>
 *
 * <p>Python has the same as {@code class InsufficientFunds(speed.ServiceError)}.
 */
public abstract class ServiceException extends ApplicationException {
    private static final long serialVersionUID = 1L;

    private static final Map<String, Function<ApplicationException, ? extends ServiceException>> DECLARED =
            new ConcurrentHashMap<>();

    /**
     * One that a service throws.
     *
     * @param code a capital letter, then up to 63 of A-Z, 0-9 and _
     * @param message what happened and what to do
     * @param fields what callers can read of it
     */
    protected ServiceException(String code, String message, Map<String, Object> fields) {
        super(code, message, fields);
    }

    /**
     * One that a call ended with.
     *
     * @param received as any caller gets it
     */
    protected ServiceException(ApplicationException received) {
        super(received.code(), received.getMessage(), received.details());
    }

    /**
     * Has calls of this process end with a class of its own where a service answers with this code. What it throws leaves
     * the error as it is.
     *
     * @param code of the error
     * @param make makes one of what any caller gets
     */
    public static void declare(String code, Function<ApplicationException, ? extends ServiceException> make) {
        DECLARED.put(code, make);
    }

    /**
     * An error as its class, if that is declared and fits; for nodes.
     *
     * @param received as any caller gets it
     * @return that, or itself
     */
    public static ApplicationException declared(ApplicationException received) {
        Function<ApplicationException, ? extends ServiceException> make = DECLARED.get(received.code());
        if (make == null) {
            return received;
        }
        try {
            ApplicationException made = make.apply(received);
            return made == null ? received : made;
        } catch (RuntimeException otherFields) { // of another version, or of another service
            return received;
        }
    }
}
