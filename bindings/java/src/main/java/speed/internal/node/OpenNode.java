package speed.internal.node;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;
import speed.BatchHandler;
import speed.CallRequest;
import speed.Interceptor;
import speed.Message;
import speed.Node;
import speed.NodeInfo;
import speed.Published;
import speed.Request;
import speed.Service;
import speed.Stream;
import speed.errors.ConfigurationException;
import speed.errors.NodeClosedException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.internal.core.AccessPolicy;
import speed.internal.core.Interceptors;
import speed.internal.engine.PeerIdentities;
import speed.internal.engine.call.Calls;
import speed.internal.engine.call.Members;
import speed.internal.engine.deliver.Delivery;
import speed.internal.engine.remote.PassingCall;
import speed.internal.engine.remote.Peer;
import speed.internal.topics.HostedTopic;
import speed.internal.wire.Batch;
import speed.internal.wire.Card;
import speed.internal.wire.Conversion;
import speed.internal.wire.Entry;
import speed.internal.wire.Hosts;
import speed.internal.wire.Require;
import speed.options.CallOptions;
import speed.options.SendOptions;
import speed.options.ServiceOptions;
import speed.options.StreamOptions;
import speed.topics.Topic;

/** What a program holds of a {@link Runtime}. Thread-safe. */
final class OpenNode implements Node {
    private static final long WAIT_NANOS = 10_000_000;

    private final Runtime runtime;
    private final Interceptors<CallRequest> around = new Interceptors<>();

    OpenNode(Runtime runtime) {
        this.runtime = runtime;
    }

    @Override
    public String name() {
        return runtime.context().name();
    }

    @Override
    public int generation() {
        return runtime.context().generation;
    }

    // --- access ---

    @Override
    public void allow(String... patterns) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().policy.allow(this::publish, Hosts.localGrants(Arrays.asList(patterns)));
        }
        runtime.lookAgain();
    }

    @Override
    public void deny(String... patterns) {
        checkOpen();
        synchronized (runtime) {
            runtime.context().policy.deny(Hosts.localGrants(Arrays.asList(patterns)));
            runtime.context().registration.allow(runtime.context().policy);
        }
    }

    private void publish(AccessPolicy policy) {
        PeerIdentities.checkGrants(policy, runtime.context().peers);
        runtime.context().registration.allow(policy);
    }

    @Override
    public List<String> allowed() {
        AccessPolicy policy = runtime.context().policy;
        List<String> grants = new ArrayList<>(policy.allowed());
        grants.addAll(policy.identities());
        return List.copyOf(grants);
    }

    // --- services ---

    @Override
    public void register(String service, Service implementation, ServiceOptions options) {
        checkOpen();
        runtime.serving()
                .services
                .register(Require.value("service", service), implementation, Require.value("options", options));
    }

    @Override
    public void unregister(String service) {
        runtime.serving().services.unregister(Require.value("service", service));
    }

    // --- calls ---

    @Override
    public Object call(String target, String service, Map<String, Object> arguments, CallOptions options) {
        checkOpen();
        CallRequest request = new CallRequest(target, service, arguments, options);
        if (options.retry() == null) {
            return around.throughUnchecked(request, this::called);
        }
        checkTriedOnce(options);
        Function<CallRequest, Object> calling = options.retry().hedge() == null ? this::called : this::hedged;
        return runtime.retries()
                .repeated(
                        target,
                        options.timeout(),
                        options.retry(),
                        left -> around.throughUnchecked(request.withOptions(options.withTimeout(left)), calling));
    }

    private static void checkTriedOnce(CallOptions options) {
        if (options.retry() != null && options.onProgress() != null) {
            throw new ConfigurationException(
                    "a call whose progress is wanted is not tried again: leave retry or onProgress");
        }
    }

    private Object hedged(CallRequest request) {
        return runtime.peers().hedged(request, () -> mayHedge(request));
    }

    private boolean mayHedge(CallRequest request) {
        return runtime.retries().mayHedge(request.target(), request.options().retry());
    }

    /** One attempt, behind the interceptors. */
    private Object called(CallRequest request) {
        CallOptions options = request.options();
        if (options.onProgress() != null) {
            return runtime.streams().call(asked(request), members(request), options.onProgress(), options.views());
        }
        return peer(request.target(), options)
                .call(
                        request.service(),
                        request.arguments(),
                        options.timeout(),
                        options.traceparent(),
                        options.views());
    }

    @Override
    public CompletableFuture<Object> submit(
            String target, String service, Map<String, Object> arguments, CallOptions options) {
        try {
            checkOpen();
            CallRequest request = new CallRequest(target, service, arguments, options);
            checkTriedOnce(options);
            if (options.retry() == null) {
                return around.submitted(request, this::submitted);
            }
            Function<CallRequest, CompletableFuture<Object>> calling =
                    options.retry().hedge() == null ? this::submitted : this::submittedHedged;
            return runtime.retries()
                    .submitted(
                            target,
                            options.timeout(),
                            options.retry(),
                            left -> around.submitted(request.withOptions(options.withTimeout(left)), calling));
        } catch (SpeedException failure) {
            return CompletableFuture.failedFuture(failure);
        }
    }

    private static Calls.Asked asked(CallRequest request) {
        CallOptions options = request.options();
        return Calls.Asked.now(
                request.target(), request.service(), request.arguments(), options.timeout(), options.traceparent());
    }

    private Members members(CallRequest request) {
        return runtime.peers().members(request.target(), request.options().key());
    }

    private CompletableFuture<Object> submitted(CallRequest request) {
        CallOptions options = request.options();
        if (options.onProgress() != null) {
            return runtime.streams().submit(asked(request), members(request), options.onProgress());
        }
        return peer(request.target(), options)
                .submit(request.service(), request.arguments(), options.timeout(), options.traceparent());
    }

    private CompletableFuture<Object> submittedHedged(CallRequest request) {
        PassingCall call = runtime.peers().passing(request);
        runtime.retries().after(request.options().retry().hedge(), call, () -> {
            if (mayHedge(request)) {
                call.askAnother();
            }
        });
        return call;
    }

    @Override
    public void interceptCalls(Interceptor<CallRequest> interceptor) {
        around.add(interceptor);
    }

    @Override
    public void interceptServices(Interceptor<Request> interceptor) {
        if (runtime.serving().services.hasBegun()) {
            throw new ConfigurationException("a service is registered already: add interceptors of services before");
        }
        runtime.serving().around.add(interceptor);
    }

    @Override
    public <T> Stream<T> stream(
            String target, String service, Map<String, Object> arguments, Class<T> item, StreamOptions options) {
        checkOpen();
        checkCall(target, service, arguments);
        Require.value("item", item);
        Require.value("options", options);
        Calls.Asked asked = Calls.Asked.now(target, service, arguments, options.timeout(), options.traceparent());
        return runtime.streams().stream(
                asked,
                runtime.peers().members(target, options.key()),
                options,
                value -> Conversion.as(value, item, "BAD_PAYLOAD", "an item"),
                item == ByteBuffer.class);
    }

    private Peer peer(String target) {
        return runtime.peers().of(Require.value("target", target));
    }

    private Peer peer(String target, CallOptions options) {
        return runtime.peers().of(target, options.key());
    }

    private static void checkCall(String target, String service, Map<String, Object> arguments) {
        Require.value("target", target);
        Require.value("service", service);
        Require.value("arguments", arguments);
    }

    // --- messages and events ---

    @Override
    public String send(String target, Object payload, SendOptions options) {
        checkOpen();
        return runtime.outbox().send(Require.value("target", target), payload, Require.value("options", options));
    }

    @Override
    public String sendBatch(String target, List<?> payloads, SendOptions options) {
        checkOpen();
        return send(target, Batch.of(Require.value("payloads", payloads)), options);
    }

    @Override
    public void segment(String target, int segmentSize, double parityRate) {
        checkOpen();
        peer(target).segment(segmentSize, parityRate);
    }

    @Override
    public void sendAll(String target, Iterable<?> payloads, SendOptions options) {
        checkOpen();
        runtime.outbox()
                .sendAll(
                        Require.value("target", target),
                        Require.value("payloads", payloads),
                        Require.value("options", options));
    }

    @Override
    public void onMessage(Consumer<Message> handler) {
        checkOpen();
        runtime.delivery().onMessage(handler);
    }

    @Override
    public void onBatch(BatchHandler handler, String... topics) {
        checkOpen();
        synchronized (runtime) {
            List<String> patterns =
                    runtime.delivery().onBatch(Require.value("handler", handler), Require.list("topics", topics));
            runtime.context().registration.subscribe(patterns, List.of());
        }
    }

    @Override
    public Message receive(Duration timeout) throws InterruptedException {
        checkOpen();
        return runtime.delivery().receive(Require.timeout(timeout));
    }

    @Override
    public Published publish(String topic, Object payload, SendOptions options) {
        checkOpen();
        return runtime.outbox().publish(Require.value("topic", topic), payload, Require.value("options", options));
    }

    @Override
    public Published publishBatch(String topic, List<?> payloads, SendOptions options) {
        checkOpen();
        return publish(topic, Batch.of(Require.value("payloads", payloads)), options);
    }

    @Override
    public Map<String, Published> publishBatch(List<? extends Map.Entry<String, ?>> pairs, SendOptions options) {
        checkOpen();
        return runtime.outbox()
                .publishEach(Batch.ofTopics(Require.value("pairs", pairs)), Require.value("options", options));
    }

    @Override
    public void subscribe(String pattern, Consumer<Message> handler) {
        subscribe(pattern, handler, false);
    }

    @Override
    public void subscribeShared(String pattern, Consumer<Message> handler) {
        subscribe(pattern, handler, true);
    }

    private void subscribe(String pattern, Consumer<Message> handler, boolean isShared) {
        checkOpen();
        synchronized (runtime) {
            Delivery.Patterns patterns =
                    runtime.delivery().subscribe(Require.value("pattern", pattern), handler, isShared);
            runtime.context().registration.subscribe(patterns.all(), patterns.shared());
        }
    }

    // --- other nodes ---

    @Override
    public List<NodeInfo> nodes() {
        checkOpen();
        return runtime.context().registry.surelyLiveEntries().stream()
                .filter(entry -> !entry.isLeaving())
                .map(OpenNode::info)
                .toList();
    }

    @Override
    public NodeInfo waitFor(String target, Duration timeout) {
        checkOpen();
        Require.value("target", target);
        Duration longest = Require.timeout(timeout);
        return runtime.blocking(() -> awaited(target, longest));
    }

    private NodeInfo awaited(String target, Duration timeout) {
        long deadline = System.nanoTime() + timeout.toNanos();
        while (true) {
            Entry entry = runtime.context().registry.surelyLive(target);
            if (entry != null
                    && !entry.isLeaving()
                    && !entry.isStarting()
                    && runtime.context().isGrantedBy(entry)) {
                return info(entry);
            }
            if (System.nanoTime() >= deadline || runtime.context().awaitStop(WAIT_NANOS)) {
                checkOpen();
                runtime.context().registry.checkThere();
                runtime.context().registry.checkReadable(target);
                String why = entry == null
                        ? "is not live"
                        : entry.isLeaving()
                                ? "is leaving"
                                : entry.isStarting() ? "is starting" : "does not allow '" + name() + "'";
                throw new UnknownNodeException("'" + target + "' " + why + " after " + timeout);
            }
        }
    }

    @Override
    public void onLost(Consumer<SpeedException> handler) {
        checkOpen();
        runtime.registrar().onLost(Require.value("handler", handler));
    }

    @Override
    public void onJoin(Consumer<NodeInfo> handler) {
        checkOpen();
        Require.value("handler", handler);
        runtime.registrar().onJoin(entry -> handler.accept(info(entry)));
    }

    @Override
    public void onLeave(Consumer<NodeInfo> handler) {
        checkOpen();
        Require.value("handler", handler);
        runtime.registrar().onLeave(entry -> handler.accept(info(entry)));
    }

    @Override
    public List<String> removeStale() {
        checkOpen();
        return runtime.context().registry.removeStale();
    }

    @Override
    public Duration ping(String target) {
        checkOpen();
        return peer(target).ping();
    }

    @Override
    public List<String> services(String target) {
        checkOpen();
        return peer(target).services();
    }

    @Override
    public List<Map<String, Object>> describe(String target) {
        checkOpen();
        return peer(target).descriptions();
    }

    @Override
    public List<Map<String, Object>> describeAlike(String family) {
        checkOpen();
        return peer(family).descriptionsAlike();
    }

    @Override
    public Map<String, Object> info(String target) {
        checkOpen();
        return peer(target).discover("INFO");
    }

    @Override
    public Map<String, Object> stats(String target) {
        checkOpen();
        return peer(target).discover("STATS");
    }

    @Override
    public Map<String, Object> stats() {
        return runtime.introspection().answer("STATS", name());
    }

    // --- durable topics ---

    @Override
    public Topic topic(String topic, String host) {
        return new HostedTopic(this, this, name(), topic, host);
    }

    // --- life ---

    @Override
    public void ready() {
        checkOpen();
        runtime.context().registration.ready();
    }

    @Override
    public boolean isClosed() {
        return runtime.context().state.hasEnded();
    }

    @Override
    public void close(Duration drain) {
        Duration longest = Require.timeout(drain);
        runtime.stop(() -> new NodeClosedException("node '" + name() + "' was closed"), longest);
    }

    private void checkOpen() {
        runtime.context().checkOpen();
    }

    private static NodeInfo info(Entry entry) {
        Entry.Published published = entry.published();
        return new NodeInfo(
                entry.name(),
                entry.generation(),
                entry.process().host(),
                entry.process().pid(),
                entry.language(),
                published.status(),
                published.fabrics(),
                published.allow(),
                published.deny(),
                published.subscriptions(),
                published.shared(),
                Card.fingerprintIn(entry),
                published.identities());
    }

    @Override
    public String toString() {
        return "Node " + name() + " generation " + generation() + (isClosed() ? " (closed)" : "");
    }
}
