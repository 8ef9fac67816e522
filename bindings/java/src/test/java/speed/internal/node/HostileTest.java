package speed.internal.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.Execution;
import speed.errors.InternalException;
import speed.errors.SpeedException;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.PendingCalls.RequestKey;
import speed.internal.engine.call.Calls;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.fs.Posix;
import speed.internal.fs.ThisProcess;
import speed.internal.wire.Control;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.internal.wire.SpcRequest;
import speed.internal.wire.SpcResponse;
import speed.internal.wire.Values;
import speed.options.ServiceOptions;
import speed.tool.BenchRoot;

/** S-1, S-11: what a peer sends is refused before it is decoded, and holds up nobody. */
@Timeout(300)
class HostileTest {
    private static final Duration SOON = Duration.ofSeconds(60);
    private static final int MANY_BYTES = 32 << 20;

    private BenchRoot root;
    private RunningNode billing;
    private RunningNode analytics;
    private OutgoingLink link;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        billing = new RunningNode(root, "billing", "analytics");
        analytics = new RunningNode(root, "analytics", "billing");
        link = new OutgoingLink(analytics.runtime.context(), "billing", null, OutgoingLink::wake, full -> false);
    }

    @AfterEach
    void close() throws IOException {
        link.shut();
        analytics.close();
        billing.close();
        root.close();
    }

    private void send(EnvelopeType type, int flags, byte[] payload) {
        link.send(Load.of(type, flags, payload, System.nanoTime() + SOON.toNanos()));
    }

    private long count(String counter) {
        Object value = billing.runtime.context().stats.counters().get(counter);
        return value == null ? 0 : ((Number) value).longValue();
    }

    private void await(String counter, long wanted) {
        for (long until = System.nanoTime() + SOON.toNanos(); count(counter) < wanted; Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < until, counter + " is " + count(counter));
        }
    }

    /** A request whose arguments are no msgpack: whoever decodes them finds that out. */
    private byte[] undecodable(String requestId, String service) {
        byte[] head = new SpcRequest(requestId, service, Map.of(), "analytics", 1, Long.MAX_VALUE, "", 0, null, false)
                .encode();
        byte[] payload = new byte[MANY_BYTES];
        System.arraycopy(head, 0, payload, 0, head.length - 1);
        payload[head.length - 1] = (byte) 0xC1;
        return payload;
    }

    private CompletableFuture<Outcome> expect(String requestId) {
        CompletableFuture<Outcome> answer = new CompletableFuture<>();
        analytics
                .runtime
                .context()
                .pending
                .add(new Call(
                        new RequestKey(requestId), System.nanoTime() + SOON.toNanos(), "billing", answer::complete));
        return answer;
    }

    private String code(String requestId, byte[] request) throws Exception {
        CompletableFuture<Outcome> waiting = expect(requestId);
        send(EnvelopeType.SPC_REQUEST, 0, request);
        return SpcResponse.decode(Calls.payload(waiting.get(60, TimeUnit.SECONDS)))
                .errorCode();
    }

    @Test
    void aRequestThatIsRefusedIsNeverDecoded() throws Exception {
        assertEquals("SERVICE_NOT_FOUND", code("9.1", undecodable("9.1", "missing")));
        billing.runtime.serving().services.register("closed", request -> 1, ServiceOptions.DEFAULT.withAllow("nobody"));
        assertEquals("ACCESS_DENIED", code("9.2", undecodable("9.2", "closed")));
        billing.runtime.serving().services.register("open", request -> 1, ServiceOptions.DEFAULT);
        assertEquals("INVALID_ARGUMENTS", code("9.3", undecodable("9.3", "open")));
        assertEquals(1, count("rejected_bad_payload"));
        billing.runtime.context().policy.deny("analytics");
        assertEquals("ACCESS_DENIED", code("9.4", undecodable("9.4", "open")));
    }

    /** S-4: a jump of the wall clock by an hour ends no call on one host. */
    @Test
    void onOneBootTheClockOfTheBootCounts() throws Exception {
        billing.runtime.serving().services.register("one", request -> 1, ServiceOptions.DEFAULT);
        long hourAgo = System.currentTimeMillis() - 3_600_000;
        long soon = Posix.bootMs() + 20_000;
        assertEquals(null, code("9.1", request("9.1", hourAgo, ThisProcess.bootId(), soon)));
        assertEquals("TIMEOUT", code("9.2", request("9.2", hourAgo, "another boot", soon)));
        assertEquals("TIMEOUT", code("9.3", request("9.3", hourAgo + 7_200_000, ThisProcess.bootId(), soon - 40_000)));
    }

    private static byte[] request(String requestId, long deadlineMs, String bootId, long bootDeadlineMs) {
        return new SpcRequest(
                        requestId, "one", Map.of(), "analytics", 1, deadlineMs, bootId, bootDeadlineMs, null, false)
                .encode();
    }

    @Test
    void aControlPayloadAboveItsLimitIsRefusedUnread() {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("requestId", "9.1");
        body.put("padding", new byte[Limits.MAX_CONTROL_BYTES]);
        for (EnvelopeType type : List.of(EnvelopeType.HEARTBEAT, EnvelopeType.DISCOVERY)) {
            send(type, 0, Control.encode(body));
        }
        for (EnvelopeType type : List.of(EnvelopeType.HEARTBEAT, EnvelopeType.ACK, EnvelopeType.ERROR)) {
            send(type, EnvelopeType.REPLY, Control.encode(body));
        }
        body.put("padding", new byte[Limits.MAX_DISCOVERY_BYTES]);
        send(EnvelopeType.DISCOVERY, EnvelopeType.REPLY, Control.encode(body));
        await("rejected_bad_payload", 6);
        send(EnvelopeType.DISCOVERY, 0, Control.encode(Map.of("op", "WITHDRAW", "requestIds", List.of(7))));
        send(EnvelopeType.DISCOVERY, 0, Control.encode(Map.of("op", "WITHDRAW")));
        await("rejected_bad_payload", 8);
    }

    @Test
    void anAnswerThatCannotBeReadEndsItsCall() throws Exception {
        CountDownLatch released = new CountDownLatch(1);
        CountDownLatch entered = new CountDownLatch(1);
        String[] id = new String[1];
        analytics
                .runtime
                .serving()
                .services
                .register(
                        "hold",
                        request -> {
                            id[0] = request.requestId().substring("billing/".length());
                            entered.countDown();
                            return released.await(60, TimeUnit.SECONDS);
                        },
                        ServiceOptions.DEFAULT);
        CompletableFuture<Object> call = billing.runtime.calls().submit("analytics", "hold", Map.of(), SOON, null);
        assertTrue(entered.await(60, TimeUnit.SECONDS));
        Map<String, Object> odd = new LinkedHashMap<>();
        odd.put("requestId", id[0]);
        odd.put("status", "PERHAPS");
        send(EnvelopeType.SPC_RESPONSE, EnvelopeType.REPLY, Values.encode(odd, "response"));
        ExecutionException ended = assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS));
        assertEquals(InternalException.class, ended.getCause().getClass());
        assertEquals(Execution.MAY_HAVE_RUN, ((SpeedException) ended.getCause()).execution());
        released.countDown();
    }
}
