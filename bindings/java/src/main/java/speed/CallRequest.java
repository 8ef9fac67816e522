package speed;

import java.util.Map;
import speed.internal.wire.Require;
import speed.options.CallOptions;

/**
 * One attempt of a call, as interceptors of calls see it. Immutable, but for what the arguments hold.
 *
 * @param target name of the node, or a family
 * @param service name of the service
 * @param arguments by name
 * @param options deadline and the like; of a call that is tried again, what is left of its deadline
 */
public record CallRequest(String target, String service, Map<String, Object> arguments, CallOptions options) {
    /**
     * Checks that all is there.
     *
     * @param target name of the node, or a family
     * @param service name of the service
     * @param arguments by name
     * @param options deadline and the like; of a call that is tried again, what is left of its deadline
     * @throws speed.errors.ConfigurationException for null
     */
    public CallRequest {
        Require.value("target", target);
        Require.value("service", service);
        Require.value("arguments", arguments);
        Require.value("options", options);
    }

    /**
     * The same call with other arguments.
     *
     * @param others by name
     * @return such a request
     */
    public CallRequest withArguments(Map<String, Object> others) {
        return new CallRequest(target, service, others, options);
    }

    /**
     * The same call with other options.
     *
     * @param others deadline and the like
     * @return such a request
     */
    public CallRequest withOptions(CallOptions others) {
        return new CallRequest(target, service, arguments, others);
    }
}
