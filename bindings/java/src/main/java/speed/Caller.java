package speed;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import speed.errors.Execution;
import speed.errors.WireException;
import speed.internal.wire.Conversion;
import speed.internal.wire.Require;
import speed.options.CallOptions;
import speed.options.StreamOptions;

/**
 * Calls services of other nodes: what a program takes that needs nothing else of a {@link Node}.
 *
 * <p>All methods are thread-safe and throw {@link speed.errors.NodeClosedException} once the node is closed.
 */
public interface Caller {
    /** Deadline of a call that is given none. */
    Duration CALL_TIMEOUT = CallOptions.DEFAULT.timeout();

    /**
     * Calls a service of another node with the usual deadline.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @return its result
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default Object call(String target, String service, Map<String, Object> arguments) {
        return call(target, service, arguments, CALL_TIMEOUT);
    }

    /**
     * Calls a service of another node with the usual deadline, for a result of one type.
     *
     * @param <T> the type
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param result as {@link Value#as} takes it
     * @return its result
     * @throws speed.errors.WireException when the result is of another kind; the service ran
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default <T> T call(String target, String service, Map<String, Object> arguments, Class<T> result) {
        return call(target, service, arguments, result, CALL_TIMEOUT);
    }

    /**
     * Calls a service of another node, for a result of one type. A {@code ByteBuffer} is a view of the bytes where they
     * were opened, without a copy.
     *
     * @param <T> the type
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param result as {@link Value#as} takes it
     * @param timeout the deadline, on both sides
     * @return its result
     * @throws speed.errors.WireException when the result is of another kind; the service ran
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default <T> T call(
            String target, String service, Map<String, Object> arguments, Class<T> result, Duration timeout) {
        return call(target, service, arguments, result, CallOptions.DEFAULT.withTimeout(timeout));
    }

    /**
     * Calls a service of another node.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param timeout the deadline, on both sides
     * @return its result
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default Object call(String target, String service, Map<String, Object> arguments, Duration timeout) {
        return call(target, service, arguments, timeout, null);
    }

    /**
     * Calls a service of another node under a trace context.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param timeout the deadline, on both sides
     * @param traceparent W3C trace context; null takes that of the request at hand
     * @return its result
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default Object call(
            String target, String service, Map<String, Object> arguments, Duration timeout, String traceparent) {
        return call(target, service, arguments, timeout, traceparent, false);
    }

    /**
     * Calls a service of another node; large bytes of the result may stay where they were opened.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param timeout the deadline, on both sides
     * @param traceparent W3C trace context; null takes that of the request at hand
     * @param views whether bytes of 32 KiB and more in the result are read-only ByteBuffers, without a copy, instead of arrays
     * @return its result
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default Object call(
            String target,
            String service,
            Map<String, Object> arguments,
            Duration timeout,
            String traceparent,
            boolean views) {
        return call(target, service, arguments, new CallOptions(timeout, traceparent, views, null, null, null));
    }

    /**
     * Calls a service of another node. Of a family, {@code pricing.*}, one node is called: with the fewest calls of this
     * node under way, of equals one after the other; another one, where it did not begin the call.
     *
     * @param target name of the node, or a family
     * @param service name of the service
     * @param arguments by name
     * @param options deadline, attempts, and which node of a family
     * @return its result
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     * @throws speed.errors.ConfigurationException for a key where the target is no family
     */
    Object call(String target, String service, Map<String, Object> arguments, CallOptions options);

    /**
     * Calls a service of another node, or of a family, for a result of one type.
     *
     * @param <T> the type
     * @param target name of the node, or a family
     * @param service name of the service
     * @param arguments by name
     * @param result as {@link Value#as} takes it
     * @param options deadline, attempts, and which node of a family
     * @return its result
     * @throws speed.errors.WireException when the result is of another kind; the service ran
     * @throws speed.errors.CallException what the other side reported
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default <T> T call(
            String target, String service, Map<String, Object> arguments, Class<T> result, CallOptions options) {
        Require.value("result", result);
        Require.value("options", options);
        Object answer = call(target, service, arguments, result == ByteBuffer.class ? options.withViews() : options);
        try {
            return Conversion.as(answer, result, "BAD_PAYLOAD", "the result of '" + service + "'");
        } catch (WireException misfit) {
            misfit.about(Execution.RAN);
            misfit.about(target, service);
            throw misfit;
        }
    }

    /**
     * Starts a call with the usual deadline; calls of one thread start in order.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @return ends with the result, or with the exception of {@link #call}
     */
    default CompletableFuture<Object> submit(String target, String service, Map<String, Object> arguments) {
        return submit(target, service, arguments, CALL_TIMEOUT);
    }

    /**
     * Starts a call; calls of one thread start in order. What depends on the future runs on the node's workers,
     * or on further threads while these are held up.
     *
     * @param target name of the node
     * @param service name of the service
     * @param arguments by name
     * @param timeout the deadline, on both sides
     * @return ends with the result, or with the exception of {@link #call}
     */
    default CompletableFuture<Object> submit(
            String target, String service, Map<String, Object> arguments, Duration timeout) {
        return submit(target, service, arguments, CallOptions.DEFAULT.withTimeout(timeout));
    }

    /**
     * Starts a call, of a node or of a family; calls of one thread start in order. What depends on the future runs on the
     * node's workers, or on further threads while these are held up.
     *
     * @param target name of the node, or a family
     * @param service name of the service
     * @param arguments by name
     * @param options deadline, and which node of a family
     * @return ends with the result, or with the exception of {@link #call}
     */
    CompletableFuture<Object> submit(String target, String service, Map<String, Object> arguments, CallOptions options);

    /**
     * Calls a service that gives many items.
     *
     * @param target name of a node of this root, or a family: all of a stream goes to one of its nodes
     * @param service name of the service
     * @param arguments by name
     * @return its items, to be closed unless they are read to the end
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default Stream<Object> stream(String target, String service, Map<String, Object> arguments) {
        return stream(target, service, arguments, Object.class, StreamOptions.DEFAULT);
    }

    /**
     * Calls a service that gives many items, of one type.
     *
     * @param <T> the type
     * @param target name of a node of this root, or a family: all of a stream goes to one of its nodes
     * @param service name of the service
     * @param arguments by name
     * @param item as {@link Value#as} takes it
     * @return its items, to be closed unless they are read to the end
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default <T> Stream<T> stream(String target, String service, Map<String, Object> arguments, Class<T> item) {
        return stream(target, service, arguments, item, StreamOptions.DEFAULT);
    }

    /**
     * Calls a service that gives many items, takes many ({@link StreamOptions#withItems}), or both.
     *
     * @param target name of a node of this root, or a family: all of a stream goes to one of its nodes
     * @param service name of the service
     * @param arguments by name
     * @param options deadlines, the window, and what is sent
     * @return its items, to be closed unless they are read to the end; {@link Stream#result} waits for one that gives none
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    default Stream<Object> stream(String target, String service, Map<String, Object> arguments, StreamOptions options) {
        return stream(target, service, arguments, Object.class, options);
    }

    /**
     * Calls a service that gives many items of one type, takes many, or both.
     *
     * @param <T> the type; of another kind is a WireException, as for the result of a call
     * @param target name of a node of this root, or a family: all of a stream goes to one of its nodes
     * @param service name of the service
     * @param arguments by name
     * @param item as {@link Value#as} takes it
     * @param options deadlines, the window, and what is sent
     * @return its items, to be closed unless they are read to the end
     * @throws speed.errors.ConfigurationException for a node of another host, and one that knows no streams
     * @throws speed.errors.DeliveryException when the request could not be handed over
     */
    <T> Stream<T> stream(
            String target, String service, Map<String, Object> arguments, Class<T> item, StreamOptions options);
}
