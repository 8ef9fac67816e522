package speed;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import speed.columns.Column;
import speed.errors.InvalidArgumentsException;
import speed.internal.wire.Conversion;
import speed.internal.wire.Conversion.Mismatch;
import speed.options.StreamProgress;

/**
 * One call as a service sees it. Immutable, but for what the arguments hold; one thread handles it.
 *
 * @param service the name it was called by
 * @param arguments by name; values as {@link Node} describes them
 * @param caller authenticated name of the calling node
 * @param callerIdentity fingerprint that the caller proved; empty where either node has no identity
 * @param requestId {@code caller/number}, unique among all calls; keep it where an effect must not happen twice
 * @param deadlineMs Unix ms after which nobody waits for the answer
 * @param traceparent W3C trace context, null if there is none
 * @param redelivered whether an earlier process of this name may have run it already; only of an idempotent service
 * @param cancellation tells when nobody waits for the answer any more
 * @param listener is told how far the service is; null where the caller does not want to know
 */
public record Request(
        String service,
        Map<String, Object> arguments,
        String caller,
        String callerIdentity,
        String requestId,
        long deadlineMs,
        String traceparent,
        boolean redelivered,
        Cancellation cancellation,
        Consumer<StreamProgress> listener) {

    /**
     * A request of a node without an identity that came for the first time, and that nobody withdraws.
     *
     * @param service the name it was called by
     * @param arguments by name
     * @param caller name of the calling node
     * @param requestId unique among all calls
     * @param deadlineMs Unix ms after which nobody waits for the answer
     * @param traceparent W3C trace context, null if there is none
     */
    public Request(
            String service,
            Map<String, Object> arguments,
            String caller,
            String requestId,
            long deadlineMs,
            String traceparent) {
        this(service, arguments, caller, "", requestId, deadlineMs, traceparent, false, new Cancellation(), null);
    }

    /**
     * Tells a caller that wants to know how far this is; costs next to nothing if it does not. It never waits, and may be
     * lost: the caller gets the newest of some twenty a second, and the one of which {@code done} is {@code total}.
     *
     * @param done how much is done, from 0
     * @param total how much there is, of the same unit; null where it is not known
     * @param note a few words, of which 200 characters travel
     * @throws speed.errors.ConfigurationException for numbers below 0 and what is no number
     */
    public void progress(double done, Double total, String note) {
        StreamProgress told = new StreamProgress(done, total, note);
        if (listener != null) {
            listener.accept(told);
        }
    }

    /**
     * The same without words.
     *
     * @param done how much is done, from 0
     * @param total how much there is, of the same unit
     */
    public void progress(double done, double total) {
        progress(done, total, "");
    }

    /**
     * The same call with somebody who is told how far it is; a node does that, and tests of services may.
     *
     * @param heard is told
     * @return such a request
     */
    public Request heardBy(Consumer<StreamProgress> heard) {
        return new Request(
                service,
                arguments,
                caller,
                callerIdentity,
                requestId,
                deadlineMs,
                traceparent,
                redelivered,
                cancellation,
                heard);
    }

    /**
     * An argument of the expected type, exactly: what does not fit is refused.
     *
     * @param <T> the expected type
     * @param name of the argument
     * @param type as {@link Value#as} takes it
     * @return its value, never null
     * @throws InvalidArgumentsException naming the argument that is missing, null, or of another type
     * @throws speed.errors.ConfigurationException for a type that no value is taken as
     */
    public <T> T get(String name, Class<T> type) {
        if (!arguments.containsKey(name) && type != Optional.class) {
            throw refused(name, "is missing");
        }
        return read(name, type);
    }

    /**
     * The same of an argument that a caller may leave out.
     *
     * @param <T> the expected type
     * @param name of the argument
     * @param type as {@link Value#as} takes it
     * @param otherwise what a missing argument means
     * @return its value, or the other
     * @throws InvalidArgumentsException naming the argument that is null or of another type
     */
    public <T> T getOr(String name, Class<T> type, T otherwise) {
        return arguments.containsKey(name) ? read(name, type) : otherwise;
    }

    /**
     * The same of an argument that may be missing or null.
     *
     * @param <T> the expected type
     * @param name of the argument
     * @param type as {@link Value#as} takes it
     * @return its value, or nothing
     * @throws InvalidArgumentsException naming the argument that is of another type
     */
    public <T> Optional<T> find(String name, Class<T> type) {
        return arguments.get(name) == null ? Optional.empty() : Optional.of(read(name, type));
    }

    private <T> T read(String name, Class<T> type) {
        try {
            return Conversion.to(type, arguments.get(name), "argument '" + name + "'");
        } catch (Mismatch misfit) {
            throw new InvalidArgumentsException(
                    service + ": " + misfit.getMessage(),
                    Map.of("argument", name, "expected", misfit.expected(), "given", misfit.given()));
        }
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

    /**
     * The same call with other arguments: for interceptors, and each row of a batch.
     *
     * @param others by name
     * @return such a request
     */
    public Request withArguments(Map<String, Object> others) {
        return new Request(
                service,
                others,
                caller,
                callerIdentity,
                requestId,
                deadlineMs,
                traceparent,
                redelivered,
                cancellation,
                listener);
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
        return new InvalidArgumentsException(service + ": argument '" + name + "' " + why, Map.of("argument", name));
    }
}
