package speed;

import java.util.LinkedHashMap;
import java.util.Map;
import speed.columns.Column;
import speed.errors.InvalidArgumentsException;

/**
 * One call as a service sees it. Immutable, but for what the arguments hold; one thread handles it.
 *
 * @param service the name it was called by
 * @param arguments by name; values as {@link Node} describes them
 * @param caller authenticated name of the calling node
 * @param requestId {@code caller/number}, unique among all calls; keep it where an effect must not happen twice
 * @param deadlineMs Unix ms after which nobody waits for the answer
 * @param traceparent W3C trace context, null if there is none
 * @param redelivered whether an earlier process of this name may have run it already; only of an idempotent service
 * @param cancellation tells when nobody waits for the answer any more
 */
public record Request(
        String service,
        Map<String, Object> arguments,
        String caller,
        String requestId,
        long deadlineMs,
        String traceparent,
        boolean redelivered,
        Cancellation cancellation) {

    /**
     * A request that came for the first time, and that nobody withdraws.
     *
     * @param service the name it was called by
     * @param arguments by name
     * @param caller name of the calling node
     * @param requestId unique among all calls
     * @param deadlineMs Unix ms after which nobody waits for the answer
     * @param traceparent W3C trace context, null if there is none
     */
    public Request(String service, Map<String, Object> arguments, String caller, String requestId, long deadlineMs,
            String traceparent) {
        this(service, arguments, caller, requestId, deadlineMs, traceparent, false, new Cancellation());
    }

    /**
     * An argument of the expected type. An integer is accepted for a {@code Double}; nothing else is converted.
     *
     * @param <T> the expected type
     * @param name of the argument
     * @param type Boolean, Long, Double, String, byte[], List, Map, Instant or Column
     * @return its value, never null
     * @throws InvalidArgumentsException when it is missing or of another type
     */
    public <T> T get(String name, Class<T> type) {
        Object value = arguments.get(name);
        if (type == Double.class && value instanceof Long whole) {
            value = whole.doubleValue();
        }
        if (!type.isInstance(value)) {
            throw refused(name, value == null ? "is missing" : "must be " + type.getSimpleName() + ", not "
                    + value.getClass().getSimpleName());
        }
        return type.cast(value);
    }

    /**
     * The arguments that are columns; other arguments hold for all rows.
     *
     * @return columns of equally many rows by name, in the order of the arguments; maybe none
     * @throws InvalidArgumentsException when their numbers of rows differ
     */
    public Map<String, Column> columns() {
        Map<String, Column> batch = new LinkedHashMap<>();
        arguments.forEach((name, value) -> {
            if (value instanceof Column column) {
                batch.put(name, column);
            }
        });
        if (batch.values().stream().mapToInt(Column::rows).distinct().count() > 1) {
            throw new InvalidArgumentsException(service + ": columns of different lengths: " + batch, Map.of());
        }
        return batch;
    }

    /** The same call for other arguments: one row of a batch. */
    Request withArguments(Map<String, Object> others) {
        return new Request(service, others, caller, requestId, deadlineMs, traceparent, redelivered, cancellation);
    }

    /**
     * Refuses arguments that the service does not know.
     *
     * @param names all that it knows
     * @throws InvalidArgumentsException naming the unknown one
     */
    public void allowOnly(String... names) {
        for (String given : arguments.keySet()) {
            if (!java.util.List.of(names).contains(given)) {
                throw refused(given, "is unknown; there are " + String.join(", ", names));
            }
        }
    }

    private InvalidArgumentsException refused(String name, String why) {
        return new InvalidArgumentsException(
                service + ": argument '" + name + "' " + why, Map.of("argument", name));
    }
}
