package speed;

import java.util.Iterator;
import java.util.Map;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.internal.wire.Conversion;
import speed.internal.wire.Conversion.Mismatch;
import speed.internal.wire.Require;

/**
 * A service that gives many items, takes many, or both. Immutable; what it is made of must be thread-safe, as a
 * {@link Service} is.
 *
 * <pre>{@code
 * node.register("rows", StreamService.giving((request, rows) -> {
 *     for (Row row : table) {
 *         rows.write(row);
 *     }
 *     return table.size();
 * }));
 * node.register("total", StreamService.taking(Long.class, (request, amounts) -> {
 *     long total = 0;
 *     while (amounts.hasNext()) {
 *         total += amounts.next();
 *     }
 *     return total;
 * }));
 * }</pre>
 *
 * <p>Callers use {@link Caller#stream}. What the service returns is the result beside its items. Once nobody reads,
 * writing and reading throw {@link speed.errors.CallWithdrawnException}: the service lets go of what it holds, and ends.
 */
public final class StreamService implements Service {
    /** What gives items. */
    @FunctionalInterface
    public interface Giving {
        /**
         * Answers one request.
         *
         * @param request the arguments, and who asks
         * @param writer takes the items
         * @return the result beside them, maybe null
         * @throws Exception when the service fails
         */
        Object give(Request request, ItemWriter writer) throws Exception;
    }

    /**
     * What takes items.
     *
     * @param <T> what each item is read as
     */
    @FunctionalInterface
    public interface Taking<T> {
        /**
         * Answers one request.
         *
         * @param request the arguments, and who asks
         * @param items of the caller, in their order; one that is no {@code T} fails the service
         * @return the result
         * @throws Exception when the service fails
         */
        Object take(Request request, Iterator<T> items) throws Exception;
    }

    /**
     * What does both.
     *
     * @param <T> what each item is read as
     */
    @FunctionalInterface
    public interface Exchanging<T> {
        /**
         * Answers one request.
         *
         * @param request the arguments, and who asks
         * @param items of the caller, in their order; one that is no {@code T} fails the service
         * @param writer takes the items of the service
         * @return the result beside them, maybe null
         * @throws Exception when the service fails
         */
        Object exchange(Request request, Iterator<T> items, ItemWriter writer) throws Exception;
    }

    private final boolean gives;
    private final Class<?> taken; // null where it takes none
    private final Exchanging<Object> service;

    private StreamService(boolean gives, Class<?> taken, Exchanging<Object> service) {
        this.gives = gives;
        this.taken = taken;
        this.service = service;
    }

    /**
     * One that gives items.
     *
     * @param service writes them
     * @return a service to register
     */
    public static StreamService giving(Giving service) {
        Giving known = Require.value("service", service);
        return new StreamService(true, null, (request, items, writer) -> known.give(request, writer));
    }

    /**
     * One that takes items.
     *
     * @param <T> the type of an item
     * @param type as {@link Value#as} takes it; Object for any
     * @param service reads them
     * @return a service to register
     */
    public static <T> StreamService taking(Class<T> type, Taking<T> service) {
        Taking<T> known = Require.value("service", service);
        return new StreamService(
                false,
                Require.value("type", type),
                (request, items, writer) -> known.take(request, new TypedItems<>(items, type)));
    }

    /**
     * One that does both.
     *
     * @param <T> the type of an item that it takes
     * @param type as {@link Value#as} takes it; Object for any
     * @param service reads and writes
     * @return a service to register
     */
    public static <T> StreamService exchanging(Class<T> type, Exchanging<T> service) {
        Exchanging<T> known = Require.value("service", service);
        return new StreamService(
                true,
                Require.value("type", type),
                (request, items, writer) -> known.exchange(request, new TypedItems<>(items, type), writer));
    }

    /**
     * Whose items there are, as a node tells it.
     *
     * @return {@code service}, {@code caller} or {@code both}
     */
    public String whoseItems() {
        if (!gives) {
            return "caller";
        }
        return taken == null ? "service" : "both";
    }

    /** The items of a caller as values of a type. */
    private record TypedItems<T>(Iterator<?> items, Class<T> type) implements Iterator<T> {
        @Override
        public boolean hasNext() {
            return items.hasNext();
        }

        @Override
        public T next() {
            try {
                return Conversion.to(type, items.next(), "an item");
            } catch (Mismatch misfit) { // the service has begun: what it did with the items before is done
                throw new ExecutionFailedException(
                        misfit.getMessage(), Map.of("expected", misfit.expected(), "given", misfit.given()));
            }
        }
    }

    /**
     * Whether it gives items.
     *
     * @return false for one that only takes some
     */
    public boolean gives() {
        return gives;
    }

    /**
     * Whether it takes items.
     *
     * @return false for one that only gives some
     */
    public boolean takes() {
        return taken != null;
    }

    /**
     * Answers one request; a node does that, and tests of services may.
     *
     * @param request the arguments, and who asks
     * @param items of the caller; of a service that takes none nothing looks at them
     * @param writer takes the items of the service
     * @return the result beside them
     * @throws Exception when the service fails
     */
    public Object serve(Request request, Iterator<?> items, ItemWriter writer) throws Exception {
        @SuppressWarnings("unchecked")
        Iterator<Object> any = (Iterator<Object>) items;
        return service.exchange(request, any, writer);
    }

    /** Refuses a plain call. */
    @Override
    public Object invoke(Request request) {
        throw new InvalidArgumentsException(
                request.service()
                        + (gives
                                ? " gives many items: call it by `node.stream`"
                                : " takes items: call it by `node.stream`, with items"),
                Map.of());
    }
}
