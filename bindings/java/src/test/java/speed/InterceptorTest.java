package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import speed.errors.ApplicationException;
import speed.errors.CallWithdrawnException;
import speed.errors.ConfigurationException;
import speed.errors.ServiceNotFoundException;
import speed.errors.UnknownNodeException;
import speed.options.CallOptions;
import speed.options.Retry;

/** Small functions around calls and services. */
class InterceptorTest extends TwoNodes {
    private final List<String> told = Collections.synchronizedList(new ArrayList<>());

    private <R> Interceptor<R> telling(String name) {
        return request -> {
            told.add(name + " before");
            return Passage.on(request).whenDone((result, error) -> told.add(name + " after " + result + " " + error));
        };
    }

    private static <R> Interceptor<R> handling(Passage.Handling handling) {
        return request -> Passage.on(request).handle(handling);
    }

    private Object submitted() throws Exception {
        return analytics.submit("billing", "one", Map.of()).get(SOON.toSeconds(), TimeUnit.SECONDS);
    }

    // --- calls ---

    @Test
    void theFirstOneIsTheOutermostForCallAndSubmit() throws Exception {
        billing.register("one", request -> 1);
        analytics.interceptCalls(telling("outer"));
        analytics.interceptCalls(telling("inner"));
        List<String> expected = List.of("outer before", "inner before", "inner after 1 null", "outer after 1 null");
        assertEquals(1L, call("one"));
        assertEquals(expected, told);
        told.clear();
        assertEquals(1L, submitted());
        assertEquals(expected, told);
    }

    @Test
    void oneChangesArgumentsAndResults() {
        billing.register("twice", request -> 2 * request.get("x", Long.class));
        analytics.interceptCalls(call -> {
            Map<String, Object> more = new HashMap<>(call.arguments());
            more.put("x", 21);
            return Passage.on(call.withArguments(more)).handle((result, error) -> List.of(result));
        });
        assertEquals(List.of(42L), call("twice"));
    }

    @Test
    void oneTurnsAnErrorIntoAResultAndAResultIntoAnError() throws Exception {
        billing.register("one", request -> 1);
        analytics.interceptCalls(handling((result, error) -> {
            if (error == null) {
                throw new IllegalStateException("not today");
            }
            assertInstanceOf(ServiceNotFoundException.class, error);
            return "there is none";
        }));
        assertEquals("there is none", call("absent"));
        assertThrows(IllegalStateException.class, () -> call("one"));
        ExecutionException late = assertThrows(ExecutionException.class, this::submitted);
        assertInstanceOf(IllegalStateException.class, late.getCause());
    }

    @Test
    void oneThatAnswersOrThrowsKeepsTheServiceFromBeingCalled() throws Exception {
        AtomicInteger ran = new AtomicInteger();
        billing.register("one", request -> ran.incrementAndGet());
        analytics.interceptCalls(telling("outer"));
        analytics.interceptCalls(call -> {
            if (call.arguments().isEmpty()) {
                return Passage.answered("from the cache");
            }
            throw new java.io.IOException("no way");
        });
        assertEquals("from the cache", call("one"));
        assertEquals("from the cache", submitted());
        CompletionException odd =
                assertThrows(CompletionException.class, () -> analytics.call("billing", "one", Map.of("x", 1)));
        assertInstanceOf(java.io.IOException.class, odd.getCause());
        assertEquals(0, ran.get());
        assertEquals(6, told.size());
    }

    @Test
    void eachAttemptOfACallThatIsTriedAgainPasses() {
        AtomicInteger attempts = new AtomicInteger();
        analytics.interceptCalls(call -> {
            attempts.incrementAndGet();
            return Passage.on(call);
        });
        CallOptions thrice =
                CallOptions.DEFAULT.withRetry(Retry.DEFAULT.withAttempts(3).withBackoff(Duration.ofMillis(1)));
        assertThrows(UnknownNodeException.class, () -> analytics.call("absent", "one", Map.of(), thrice));
        assertEquals(3, attempts.get());
    }

    @Test
    void aCallBetweenThemIsWithdrawnAsAnyOther() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        billing.register("wait", request -> {
            begun.countDown();
            request.cancellation().await(SOON);
            throw new java.util.concurrent.CancellationException();
        });
        analytics.interceptCalls(telling("one"));
        CompletableFuture<Object> future = analytics.submit("billing", "wait", Map.of());
        assertTrue(begun.await(SOON.toSeconds(), TimeUnit.SECONDS));
        assertFalse(future.cancel(true));
        ExecutionException ended =
                assertThrows(ExecutionException.class, () -> future.get(SOON.toSeconds(), TimeUnit.SECONDS));
        assertInstanceOf(CallWithdrawnException.class, ended.getCause());
        assertEquals(2, told.size());
    }

    @Test
    void oneThatReturnsNothingIsNone() {
        analytics.interceptCalls(call -> null);
        assertThrows(ConfigurationException.class, () -> call("one"));
        assertThrows(ConfigurationException.class, () -> analytics.interceptCalls(null));
    }

    // --- services ---

    @Test
    void oneRefusesWhoHasNoSession() {
        billing.interceptServices(request -> {
            Map<String, Object> rest = new HashMap<>(request.arguments());
            if (!"s-1".equals(rest.remove("session"))) {
                throw new ApplicationException("SIGNED_OUT", "sign in first", Map.of());
            }
            return Passage.on(request.withArguments(rest));
        });
        billing.register("given", Request::arguments);
        assertEquals(Map.of("x", 1L), analytics.call("billing", "given", Map.of("session", "s-1", "x", 1)));
        assertEquals(
                "SIGNED_OUT",
                assertThrows(ApplicationException.class, () -> call("given")).code());
    }

    @Test
    void oneSeesWhatAServiceThrows() {
        billing.interceptServices(telling("one"));
        billing.register("fail", request -> {
            throw new IllegalStateException("full");
        });
        assertThrows(speed.errors.ExecutionFailedException.class, () -> call("fail"));
        assertEquals("one after null java.lang.IllegalStateException: full", told.get(1));
    }

    @Test
    void aServiceThatStreamsPassesFromTheFirstItemToTheEnd() {
        billing.interceptServices(telling("one"));
        billing.register("rows", StreamService.giving((request, rows) -> {
            rows.write(1);
            told.add("written");
            return "over";
        }));
        assertEquals("over", analytics.stream("billing", "rows", Map.of()).result());
        assertEquals(List.of("one before", "written", "one after over null"), told);
    }

    @Test
    void oneThatComesAfterAServiceWouldLeaveItOpen() {
        billing.register("one", request -> 1);
        assertThrows(ConfigurationException.class, () -> billing.interceptServices(telling("late")));
    }

    // --- the example ---

    @Test
    void theProgramOfTheDocumentationRuns() {
        Node one = root.node("pricing.1", "analytics");
        Node two = root.node("pricing.2", "analytics");
        try {
            one.register("quote", request -> "pricing.1");
            two.register("quote", request -> "pricing.2");
            speed.examples.Ledger.offer(billing);
            speed.examples.Ledger.use(analytics);
        } finally {
            one.close();
            two.close();
        }
    }
}
