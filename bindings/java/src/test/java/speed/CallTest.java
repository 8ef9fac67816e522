package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.columns.Column;
import speed.errors.AccessDeniedException;
import speed.errors.ApplicationException;
import speed.errors.Execution;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.errors.PayloadTooLargeException;
import speed.errors.ServiceNotFoundException;
import speed.errors.UnknownNodeException;
import speed.errors.UnserialisableException;
import speed.options.ServiceOptions;

/** Calls and what they end with. */
class CallTest extends TwoNodes {
    @Test
    void aCallReturnsWhatTheServiceReturns() {
        billing.register("add", request -> request.get("a", Long.class) + request.get("b", Long.class));
        assertEquals(5L, analytics.call("billing", "add", Map.of("a", 2, "b", 3)));
    }

    @Test
    void eachFailureOfACallIsAnExceptionOfItsOwn() {
        billing.register("fail", request -> {
            throw new IllegalStateException("no luck");
        });
        billing.register("odd", request -> new Object());
        billing.register("forbidden", request -> 1, List.of("nobody"));
        billing.register("typed", request -> request.get("x", Long.class));
        assertThrows(ServiceNotFoundException.class, () -> call("missing"));
        assertThrows(AccessDeniedException.class, () -> call("forbidden"));
        assertThrows(InvalidArgumentsException.class, () -> call("typed"));
        assertThrows(ExecutionFailedException.class, () -> call("odd"));
        ExecutionFailedException failed = assertThrows(ExecutionFailedException.class, () -> call("fail"));
        assertEquals("IllegalStateException", failed.details().get("exception"));
        assertThrows(UnknownNodeException.class, () -> analytics.call("nobody", "x", Map.of()));
        assertThrows(UnserialisableException.class, () -> analytics.call("billing", "x", Map.of("x", new Object())));
    }

    @Test
    void aSlowServiceEndsWithTimeoutAndItsPhase() {
        CountDownLatch released = new CountDownLatch(1);
        billing.register("slow", request -> released.await(60, TimeUnit.SECONDS));
        assertEquals("running", lateWhileRunning("slow").details().get("phase"));
        released.countDown();
    }

    @Test
    void aSlowServiceBlocksNoOther() {
        CountDownLatch released = new CountDownLatch(1);
        billing.register("slow", request -> released.await(60, TimeUnit.SECONDS));
        billing.register("quick", request -> "done");
        CompletableFuture<Object> slow = analytics.submit("billing", "slow", Map.of());
        assertEquals("done", call("quick"));
        released.countDown();
        assertEquals(true, slow.join());
    }

    @Test
    void requestsOfOneSenderStartInOrder() {
        List<Object> seen = new ArrayList<>();
        try (Node serial = root.builder("serial", "analytics").workers(1).open()) { // others run them side by side
            serial.register("note", request -> seen.add(request.arguments().get("n")));
            List<CompletableFuture<Object>> calls = new ArrayList<>();
            List<Object> sent = new ArrayList<>();
            for (long n = 0; n < 2000; n++) {
                sent.add(n);
                calls.add(analytics.submit("serial", "note", Map.of("n", n)));
            }
            calls.forEach(CompletableFuture::join);
            assertEquals(sent, seen);
        }
    }

    @Test
    void aServiceMayCallBackInTheMiddle() {
        analytics.register("half", request -> request.get("x", Long.class) / 2);
        billing.register(
                "viaCaller",
                request -> billing.call(
                        request.caller(),
                        "half",
                        Map.of("x", request.arguments().get("x"))));
        assertEquals(21L, analytics.call("billing", "viaCaller", Map.of("x", 42)));
    }

    @Test
    void theTraceContextIsCarriedOn() {
        String trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        analytics.register("trace", Request::traceparent);
        billing.register("viaCaller", request -> billing.call("analytics", "trace", Map.of()));
        assertEquals(trace, analytics.call("billing", "viaCaller", Map.of(), SOON, trace));
        assertNull(call("viaCaller"));
    }

    @Test
    void aLargePayloadArrivesWhole() {
        billing.register("echo", request -> request.arguments().get("data"));
        byte[] data = new byte[20 << 20];
        for (int index = 0; index < data.length; index++) {
            data[index] = (byte) (index * 31);
        }
        assertArrayEquals(data, (byte[]) analytics.call("billing", "echo", Map.of("data", data)));
    }

    /** G-18: arguments and results that no envelope holds go in segments by themselves. */
    @Test
    void whatNoEnvelopeHoldsGoesInSegments() {
        billing.register("size", request -> request.get("data", byte[].class).length);
        billing.register(
                "zeros", request -> new byte[request.get("size", Long.class).intValue()]);
        assertEquals(70L << 20, analytics.call("billing", "size", Map.of("data", new byte[70 << 20]), SOON));
        byte[] zeros = (byte[]) analytics.call("billing", "zeros", Map.of("size", 70L << 20), SOON);
        assertEquals(70 << 20, zeros.length);
        PayloadTooLargeException large = assertThrows(
                PayloadTooLargeException.class,
                () -> analytics.call("billing", "size", Map.of("data", new byte[257 << 20])));
        assertEquals(Execution.NOT_BEGUN, large.execution());
        ExecutionFailedException result = assertThrows(
                ExecutionFailedException.class,
                () -> analytics.call("billing", "zeros", Map.of("size", 257L << 20), SOON));
        assertEquals(Execution.RAN, result.execution());
    }

    @Test
    void whatDependsOnAFutureMayCallAgain() throws ExecutionException, InterruptedException {
        billing.register("echo", request -> request.arguments().get("data"));
        Object twice = analytics
                .submit("billing", "echo", Map.of("data", 1))
                .thenApply(one -> analytics.call("billing", "echo", Map.of("data", one)))
                .get();
        assertEquals(1L, twice);
    }

    @Test
    void pingInfoStatsAndServicesTellOfANode() {
        billing.register("open", request -> 1);
        billing.register("closed", request -> 1, List.of("nobody"));
        assertEquals(List.of("open"), analytics.services("billing"));
        assertTrue(analytics.ping("billing").toNanos() > 0);
        assertEquals("java", analytics.info("billing").get("language"));
        call("open");
        Map<?, ?> services = (Map<?, ?>) analytics.stats("billing").get("services");
        assertEquals(1L, ((Map<?, ?>) services.get("open")).get("numRequests"));
    }

    /** */
    @Test
    void anEmptyListOfCallersLetsNobodyCall() {
        billing.register("list", request -> 1, List.of());
        billing.register("options", request -> 1, ServiceOptions.DEFAULT.withAllow());
        billing.register("open", request -> 1);
        assertThrows(AccessDeniedException.class, () -> call("list"));
        assertThrows(AccessDeniedException.class, () -> call("options"));
        assertEquals(List.of("open"), analytics.services("billing"));
    }

    /** S-19 */
    @Test
    void aCodeOfTheServicesOwnReachesItsCaller() {
        billing.register("stock", request -> Response.error("OUT_OF_STOCK", "none left", Map.of("item", "A7")));
        billing.register("thrown", request -> {
            throw new ApplicationException("OUT_OF_STOCK", "none left", Map.of());
        });
        ApplicationException error = assertThrows(ApplicationException.class, () -> call("stock"));
        assertEquals("OUT_OF_STOCK", error.code());
        assertEquals(Map.of("item", "A7"), error.details());
        assertEquals(Execution.RAN, error.execution());
        assertEquals("billing/stock", error.node() + "/" + error.service());
        assertEquals(
                "OUT_OF_STOCK",
                assertThrows(ApplicationException.class, () -> call("thrown")).code());
    }

    /** S-19 */
    @Test
    void aCodeThatNoServiceMayGiveEndsTheCallAndIsNamed() {
        for (String code : List.of("", "out of stock", "app/X", "A".repeat(65))) {
            billing.register("odd" + code.length(), request -> Response.error(code, "x"));
            ExecutionFailedException error =
                    assertThrows(ExecutionFailedException.class, () -> call("odd" + code.length()));
            assertTrue(error.getMessage().contains("cannot be used"), error.getMessage());
        }
    }

    /** S-20 */
    @Test
    void whatACallOfAServiceEndedWithIsNotItsCallersFault() {
        analytics.allow("billing");
        analytics.register("strict", request -> request.get("n", Long.class));
        billing.register("asks", request -> billing.call("analytics", "strict", Map.of()));
        billing.register(
                "joins",
                request -> billing.submit("analytics", "strict", Map.of()).join());
        for (String service : List.of("asks", "joins")) {
            ExecutionFailedException error = assertThrows(ExecutionFailedException.class, () -> call(service));
            assertEquals("INVALID_ARGUMENTS", error.details().get("cause"));
            assertEquals("analytics", error.details().get("node"));
            assertEquals("strict", error.details().get("service"));
        }
    }

    /** S-20 */
    @Test
    void aColumnOfAnotherKindIsTheFaultOfTheCallerThatGaveItAndOfNoOther() {
        analytics.allow("billing");
        analytics.register("counts", request -> Column.of(1, 2));
        billing.register(
                "given", request -> request.columns().get("a").doubles().get(0));
        billing.register(
                "asked",
                request -> ((Column) billing.call("analytics", "counts", Map.of()))
                        .doubles()
                        .get(0));
        Map<String, Object> arguments = Map.of("a", Column.of(1, 2));
        InvalidArgumentsException refused =
                assertThrows(InvalidArgumentsException.class, () -> analytics.call("billing", "given", arguments));
        assertEquals("billing: argument 'a' must be FLOAT64, not INT64", refused.getMessage());
        assertEquals(Map.of("argument", "a", "expected", "FLOAT64", "given", "INT64"), refused.details());
        assertThrows(ExecutionFailedException.class, () -> analytics.call("billing", "asked", arguments));
    }

    /** S-14: who asks may be another than who caused it. */
    @Test
    void statsTellTheCodeOfTheLastErrorAndNotWhatACallerSent() {
        billing.register("odd", request -> {
            throw new IllegalStateException("no account DE89 \uD800");
        });
        billing.register("own", request -> Response.error("NO_ACCOUNT_DE89", "x"));
        assertThrows(ExecutionFailedException.class, () -> call("odd"));
        assertThrows(ApplicationException.class, () -> call("own"));
        Map<?, ?> services = (Map<?, ?>) analytics.stats("billing").get("services");
        assertEquals("EXECUTION_FAILED", ((Map<?, ?>) services.get("odd")).get("lastError"));
        assertEquals("APPLICATION", ((Map<?, ?>) services.get("own")).get("lastError"));
    }

    /** W-19: it is printed and logged by programs that do not think of it. */
    @Test
    void theMessageOfAFailureActsOnNoTerminal() {
        billing.register("hostile", request -> Response.error("INVALID_ARGUMENTS", "no\u001b[31m\nforged\u202e"));
        InvalidArgumentsException failed = assertThrows(InvalidArgumentsException.class, () -> call("hostile"));
        assertTrue(failed.getMessage().contains("no\\x1b[31m\\nforged\\u202e"), failed.getMessage());
    }

    /** S-14: others choose those names, and how many there are. */
    @Test
    void requestsForServicesThatAreNotThereAreCountedTogether() {
        for (int number = 0; number < 5; number++) {
            String name = "later" + number;
            assertThrows(ServiceNotFoundException.class, () -> call(name));
        }
        billing.register("later0", request -> 1);
        call("later0");
        Map<?, ?> stats = analytics.stats("billing");
        assertEquals(5L, ((Map<?, ?>) stats.get("counters")).get("requests_for_no_service"));
        assertEquals(1L, ((Map<?, ?>) ((Map<?, ?>) stats.get("services")).get("later0")).get("numRequests"));
    }
}
