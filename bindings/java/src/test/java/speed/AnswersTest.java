package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.columns.Column;
import speed.errors.ApplicationException;
import speed.errors.CallException;
import speed.errors.Execution;
import speed.errors.ExecutionFailedException;
import speed.errors.NodeLeftException;
import speed.errors.ServiceNotFoundException;
import speed.errors.UnknownNodeException;

/** S-3, S-8: exactly one answer for each call, whatever the service made of it, and the caller knows what has run. */
class AnswersTest extends TwoNodes {
    /** A map that cannot be read. */
    private static final class Unreadable extends AbstractMap<String, Object> {
        @Override
        public Set<Entry<String, Object>> entrySet() {
            throw new IllegalStateException("not now");
        }
    }

    /** A record that cannot be read. */
    private record Sealed(int amount) {
        @Override
        public int amount() {
            throw new IllegalStateException("not now");
        }
    }

    private static final List<Response> ODD = Arrays.asList(
            Response.error("", null, null),
            Response.error(null, null, null),
            new Response(null, "EXECUTION_FAILED", null, null),
            Response.error("EXECUTION_FAILED", "x".repeat(1 << 20), Map.of()),
            Response.error("EXECUTION_FAILED", "broken", Map.of("large", new byte[1 << 20])),
            Response.error("EXECUTION_FAILED", "broken", Map.of("odd", new Object())),
            Response.error("EXECUTION_FAILED", "\uD800", Map.of("nothing", "\uD800")),
            new Response(new Unreadable(), null, "", Map.of()),
            Response.error("EXECUTION_FAILED", "broken", new Unreadable()),
            Response.of(new byte[1 << 10]));

    private static Object answer(CompletableFuture<Object> call) throws Exception {
        try {
            return call.get(60, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            return failed.getCause();
        }
    }

    @Test
    void eachOddAnswerIsAnswerToItsCallAndHarmsNoOther() throws Exception {
        billing.register("odd", request -> ODD.get(request.get("n", Long.class).intValue()));
        billing.register("plain", request -> request.arguments().get("n"));
        List<CompletableFuture<Object>> odd = new ArrayList<>();
        List<CompletableFuture<Object>> plain = new ArrayList<>();
        for (int round = 0; round < 50; round++) {
            for (long n = 0; n < ODD.size(); n++) {
                odd.add(analytics.submit("billing", "odd", Map.of("n", n), SOON));
                plain.add(analytics.submit("billing", "plain", Map.of("n", n), SOON));
            }
        }
        Map<String, Integer> codes = new HashMap<>();
        for (int call = 0; call < odd.size(); call++) {
            assertEquals((long) call % ODD.size(), answer(plain.get(call)));
            Object answer = answer(odd.get(call));
            codes.merge(answer instanceof CallException error ? error.code() : "SUCCESS", 1, Integer::sum);
        }
        assertEquals(Map.of("SUCCESS", 50, "INTERNAL_ERROR", 50, "EXECUTION_FAILED", 400), codes);
    }

    @Test
    void aRecordThatFailsWhileItIsReadIsAFailureOfItsService() {
        billing.register("result", request -> Response.of(Map.of("receipts", List.of(new Sealed(1)))));
        billing.register("rows", Service.byRow(row -> row.get("n", int.class) == 0 ? null : new Sealed(1)));
        ExecutionFailedException failed = assertThrows(ExecutionFailedException.class, () -> call("result"));
        assertTrue(failed.getMessage().endsWith("IllegalStateException: not now"), failed.getMessage());
        ExecutionFailedException row = assertThrows(
                ExecutionFailedException.class, () -> analytics.call("billing", "rows", Map.of("n", Column.of(0, 1))));
        assertEquals(1L, row.details().get("row"));
    }

    @Test
    void whatIsLeftOutOfAnErrorIsStatedInItsText() {
        billing.register(
                "large",
                request -> Response.error("EXECUTION_FAILED", "x".repeat(5_000), Map.of("large", new byte[1 << 20])));
        ExecutionFailedException failed = assertThrows(ExecutionFailedException.class, () -> call("large"));
        assertEquals(Map.of(), failed.details());
        assertTrue(failed.getMessage().endsWith("(its details were left out: they are too large)"));
        assertTrue(failed.getMessage().length() <= 2_000 + "billing: ".length());
    }

    @Test
    void whatTheServiceSeesAsIdIsItsCallersAndNobodyElses() {
        billing.register("id", Request::requestId);
        billing.allow("billing");
        assertTrue(((String) call("id")).startsWith("analytics/"));
        assertTrue(((String) billing.call("billing", "id", Map.of())).startsWith("billing/"));
    }

    @Test
    void anErrorSaysWhetherTheServiceHasRun() {
        billing.register("fail", request -> {
            throw new IllegalStateException("no luck");
        });
        billing.register("odd", request -> Response.error("LATER", "nothing yet"));
        assertEquals(
                Execution.NOT_BEGUN,
                assertThrows(ServiceNotFoundException.class, () -> call("missing"))
                        .execution());
        assertEquals(
                Execution.RAN,
                assertThrows(ExecutionFailedException.class, () -> call("fail")).execution());
        assertEquals(
                Execution.RAN,
                assertThrows(ApplicationException.class, () -> call("odd")).execution());
        assertEquals(
                Execution.NOT_BEGUN,
                assertThrows(UnknownNodeException.class, () -> analytics.call("nobody", "x", Map.of()))
                        .execution());
        assertEquals(
                null,
                assertThrows(UnknownNodeException.class, () -> analytics.send("nobody", 1))
                        .execution());
    }

    @Test
    void ofANodeThatDiedNobodyKnowsWhatItRan() throws Exception {
        java.util.concurrent.CountDownLatch released = new java.util.concurrent.CountDownLatch(1);
        java.util.concurrent.CountDownLatch entered = new java.util.concurrent.CountDownLatch(1);
        billing.register("hold", request -> {
            entered.countDown();
            return released.await(60, TimeUnit.SECONDS);
        });
        CompletableFuture<Object> call = analytics.submit("billing", "hold", Map.of(), SOON);
        assertTrue(entered.await(60, TimeUnit.SECONDS));
        billing.close(java.time.Duration.ZERO);
        NodeLeftException left = (NodeLeftException) answer(call);
        assertEquals(Execution.MAY_HAVE_RUN, left.execution());
        released.countDown();
    }
}
