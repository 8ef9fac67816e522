package speed.internal.core;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import speed.ItemWriter;
import speed.Request;
import speed.Response;
import speed.Service;
import speed.StreamService;
import speed.errors.CallWithdrawnException;
import speed.errors.ConfigurationException;
import speed.errors.InvalidNameException;
import speed.errors.ServiceExistsException;
import speed.errors.ServiceNotFoundException;
import speed.internal.wire.Fault;
import speed.internal.wire.Hosts;
import speed.internal.wire.Names;
import speed.internal.wire.ServiceCode;
import speed.internal.wire.StreamOffer;
import speed.internal.wire.Values;
import speed.options.ServiceDescription;
import speed.options.ServiceOptions;

/** The services of one node: registration, checks, invocation. In memory only. Thread-safe. */
public final class ServiceTable {
    /** One row; without a policy whoever may write to the node may call. */
    private record Row(Service service, AccessPolicy policy, ServiceOptions options, Map<String, Object> description) {
        boolean allows(String caller) {
            return policy == null || policy.allows(caller);
        }
    }

    /**
     * What a caller may have.
     *
     * @param options how it is offered
     * @param refusal why there is none; null where there is
     */
    public record Found(Service service, ServiceOptions options, Response refusal) {
        /**
         * Runs it, once its arguments are as it declares them.
         *
         * @param items of the caller, for a service that takes some
         * @param writer takes the items of a service that gives some
         */
        public Object serve(Request request, Iterator<?> items, ItemWriter writer) throws Exception {
            if (options.description() != null) {
                options.description().check(request.service(), request.arguments());
            }
            return service instanceof StreamService streams
                    ? streams.serve(request, items, writer)
                    : service.invoke(request);
        }

        /** Runs it where nothing travels beside the call: one that gives or takes items refuses. */
        public Object invoke(Request request) throws Exception {
            return service instanceof StreamService ? service.invoke(request) : serve(request, null, null);
        }

        /** Whether it takes items. */
        public boolean takesItems() {
            return service instanceof StreamService streams && streams.takes();
        }

        /** Why it is not called with such a stream; null if it is (S-27). */
        public Response refusal(String name, StreamOffer offer) {
            boolean gives = service instanceof StreamService streams && streams.gives();
            String why = null;
            if (!(service instanceof StreamService)) {
                why = offer.isStream() ? " gives and takes no items: call it by `call`" : null;
            } else if (gives && !offer.wantsItems()) {
                why = " gives many items: call it by `node.stream`";
            } else if (takesItems() != offer.sends()) {
                why = offer.sends() ? " takes no items" : " takes items: call it by `node.stream`, with items";
            }
            return why == null ? null : Response.error("INVALID_ARGUMENTS", name + why);
        }
    }

    private static final Set<String> SCHEMAS = Set.of("parameters", "result");

    private final Map<String, Row> rows = new ConcurrentHashMap<>();
    private volatile boolean hasBegun;

    /**
     * Adds a service.
     *
     * @throws ConfigurationException for no service at all
     */
    public void register(String name, Service service, ServiceOptions options) {
        Names.checkService(name);
        if (service == null) {
            throw new ConfigurationException("service '" + name + "' is null: give what it does");
        }
        if (options.allow() != null && options.allow().stream().anyMatch(Names::namesIdentity)) {
            throw new InvalidNameException("grants of a service name nodes alone: grant the identity at the node");
        }
        AccessPolicy policy = options.allow() == null ? null : new AccessPolicy(Hosts.localGrants(options.allow()));
        ServiceDescription described = options.description();
        Map<String, Object> told =
                (described == null ? ServiceDescription.of("") : described).asMap(name, options.idempotent());
        told.put("streaming", service instanceof StreamService);
        if (service instanceof StreamService streaming) {
            told.put("items", streaming.whoseItems());
        }
        Row row = new Row(service, policy, options, told);
        hasBegun = true;
        if (rows.putIfAbsent(name, row) != null) {
            throw new ServiceExistsException("service '" + name + "' is already registered; unregister it first");
        }
    }

    /**
     * What a node may know of the services that it may call, by name.
     *
     * @param mostBytes of the answer: what does not fit stands there without its parameters and its result
     */
    public List<Map<String, Object>> descriptions(String caller, int mostBytes) {
        List<Map<String, Object>> whole = names(caller).stream()
                .map(rows::get)
                .filter(Objects::nonNull) // what was taken back meanwhile is not there
                .map(Row::description)
                .toList();
        int left = mostBytes - whole.stream().mapToInt(one -> size(brief(one))).sum();
        List<Map<String, Object>> described = new ArrayList<>();
        for (Map<String, Object> one : whole) {
            int more = size(one) - size(brief(one));
            described.add(more <= left ? one : brief(one));
            left -= more <= left ? more : 0;
        }
        return described;
    }

    private static Map<String, Object> brief(Map<String, Object> description) {
        Map<String, Object> brief = new LinkedHashMap<>(description);
        brief.keySet().removeAll(SCHEMAS);
        return brief;
    }

    private static int size(Map<String, Object> description) {
        return Values.encode(description, "description").length;
    }

    /** Whether a service was ever registered. */
    public boolean hasBegun() {
        return hasBegun;
    }

    /** Removes a service. */
    public void unregister(String name) {
        if (rows.remove(name) == null) {
            throw new ServiceNotFoundException("no service '" + name + "' is registered");
        }
    }

    public boolean has(String name) {
        return rows.containsKey(name);
    }

    /** Sorted names of all services. */
    public List<String> names() {
        return rows.keySet().stream().sorted().toList();
    }

    /** Sorted names of the services that a node may call. */
    public List<String> names(String caller) {
        return rows.entrySet().stream()
                .filter(row -> row.getValue().allows(caller))
                .map(Map.Entry::getKey)
                .sorted()
                .toList();
    }

    /** The service of a name, if the caller may have it. */
    public Found find(String name, String caller) {
        Row row = rows.get(name);
        if (row == null) {
            return new Found(null, null, Response.error("SERVICE_NOT_FOUND", "no service '" + name + "' here"));
        }
        if (!row.allows(caller)) {
            return new Found(
                    null,
                    null,
                    Response.error("ACCESS_DENIED", "service '" + name + "' does not allow node '" + caller + "'"));
        }
        return new Found(row.service, row.options, null);
    }

    /** A service, and what stands around it, as it runs for one request. */
    @FunctionalInterface
    public interface Running {
        Object run(Request request) throws Exception;
    }

    /**
     * Runs a service; never throws for what it does wrong.
     *
     * @param failed is told of what it throws, but for what it says on purpose and without a cause
     */
    public static Response invoke(Running service, Request request, Consumer<Throwable> failed) {
        try {
            Object answer = service.run(request);
            return answer instanceof Response response ? ServiceCodes.travelling(response) : Response.of(answer);
        } catch (Throwable failure) { // whatever a service throws, its caller is told and the worker goes on
            if (request.cancellation().isCancelled() && isCancellation(failure)) {
                return Response.error(
                        "WITHDRAWN",
                        "'" + request.service() + "' ended when the call was withdrawn",
                        Map.of("phase", "running"));
            }
            Fault fault = Fault.of(failure, request.arguments());
            if (!fault.isDeclared() || Fault.causeOf(failure) != null) {
                failed.accept(failure);
            }
            return ServiceCodes.travelling(Response.error(fault.code(), fault.text(), fault.details()));
        }
    }

    private static boolean isCancellation(Throwable failure) {
        return failure instanceof CancellationException
                || failure instanceof InterruptedException
                || failure instanceof CallWithdrawnException;
    }

    /** Codes of errors that a service answers with: the contract's, and its own, which travel with a prefix. */
    static final class ServiceCodes {
        /** What a node says of itself, and its callers act on: of a service that ran it would be wrong. */
        private static final Set<String> NODES_OWN = Set.of("LEAVING", "REPLACED");

        private ServiceCodes() {}

        /** What a service answered, with its code as it travels; EXECUTION_FAILED for a code that no service may give. */
        static Response travelling(Response answer) {
            String code = answer.errorCode();
            if (code == null || ServiceCode.isContracts(code) && !NODES_OWN.contains(code)) {
                return answer;
            }
            if (ServiceCode.isOwn(code)) {
                return new Response(null, ServiceCode.travelling(code), answer.errorMessage(), answer.details());
            }
            return Response.error("EXECUTION_FAILED", ServiceCode.refused(code));
        }
    }
}
