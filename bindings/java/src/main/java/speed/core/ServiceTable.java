package speed.core;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import speed.AccessPolicy;
import speed.Request;
import speed.Response;
import speed.Service;
import speed.errors.CallException;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.errors.ServiceExistsException;
import speed.errors.ServiceNotFoundException;
import speed.wire.Names;

/** The services of one node: registration, checks, invocation (S-3, S-8, S-9). In memory only. Thread-safe. */
public final class ServiceTable {
    private static final int MAX_ERROR_CHARACTERS = 2000;

    /** One row; without a policy whoever may write to the node may call. */
    private record Row(Service service, AccessPolicy policy) {
        boolean allows(String caller) {
            return policy == null || policy.allows(caller);
        }
    }

    private final Map<String, Row> rows = new ConcurrentHashMap<>();

    /**
     * Adds a service.
     *
     * @param allow grant patterns that narrow who may call it, null for all that may write to the node
     */
    public void register(String name, Service service, List<String> allow) {
        Names.checkService(name);
        AccessPolicy policy = allow == null ? null : new AccessPolicy(allow.toArray(new String[0]));
        if (rows.putIfAbsent(name, new Row(service, policy)) != null) {
            throw new ServiceExistsException("service '" + name + "' is already registered; unregister it first");
        }
    }

    /** Removes a service. */
    public void unregister(String name) {
        if (rows.remove(name) == null) {
            throw new ServiceNotFoundException("no service '" + name + "' is registered");
        }
    }

    /** Sorted names of the services that a node may call. */
    public List<String> names(String caller) {
        return rows.entrySet().stream()
                .filter(row -> row.getValue().allows(caller)).map(Map.Entry::getKey).sorted().toList();
    }

    /** Checks, finds and runs; never throws for what a service or a caller does wrong. */
    public Response invoke(Request request) {
        Row row = rows.get(request.service());
        if (row == null) {
            return Response.error("SERVICE_NOT_FOUND", "no service '" + request.service() + "' here");
        }
        if (!row.allows(request.caller())) {
            return Response.error("ACCESS_DENIED",
                    "service '" + request.service() + "' does not allow node '" + request.caller() + "'");
        }
        try {
            Object answer = row.service.invoke(request);
            return answer instanceof Response response ? response : Response.of(answer);
        } catch (InvalidArgumentsException | ExecutionFailedException refused) {
            return Response.error(refused.code(), refused.getMessage(), refused.details());
        } catch (Throwable failure) { // whatever a service throws, its caller is told and the worker goes on
            return failed(failure);
        }
    }

    /** EXECUTION_FAILED with the kind and text of the failure; never a stack trace (it may show payloads). */
    private static Response failed(Throwable failure) {
        String kind = failure.getClass().getSimpleName();
        String text = failure.getMessage() == null ? "" : failure.getMessage();
        Map<String, Object> details = new LinkedHashMap<>();
        details.put("exception", kind);
        if (failure instanceof CallException call) {
            details.put("cause", call.code());
        }
        String cut = text.substring(0, Math.min(text.length(), MAX_ERROR_CHARACTERS));
        return Response.error("EXECUTION_FAILED", cut.isEmpty() ? kind : kind + ": " + cut, details);
    }
}
