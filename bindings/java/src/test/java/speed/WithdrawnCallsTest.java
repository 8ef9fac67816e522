package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import speed.errors.CallWithdrawnException;
import speed.errors.Execution;

/** S-16: what nobody wants any more never begins, or is told while it runs. */
class WithdrawnCallsTest extends TwoNodes {
    /** Nearly as many as a lane may have in hand (L-19): what is behind more of them is not read. */
    private static final int MANY = 4_000;

    private final CountDownLatch entered = new CountDownLatch(1);
    private final CountDownLatch released = new CountDownLatch(1);
    private final AtomicInteger ran = new AtomicInteger();

    private static CallWithdrawnException withdrawn(CompletableFuture<Object> call) {
        Throwable cause = assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS))
                .getCause();
        return (CallWithdrawnException) cause;
    }

    private Object hold() throws InterruptedException {
        entered.countDown();
        return released.await(60, TimeUnit.SECONDS);
    }

    @Test
    void aWaitingCallThatIsCancelledNeverRunsAndTheNextOneAnswers() throws Exception {
        try (Node one = root.builder("one", "analytics").workers(1).open()) {
            one.register("hold", request -> hold());
            one.register("count", request -> ran.incrementAndGet());
            CompletableFuture<Object> holding = analytics.submit("one", "hold", Map.of(), SOON);
            assertTrue(entered.await(60, TimeUnit.SECONDS));
            List<CompletableFuture<Object>> calls = new ArrayList<>();
            for (int call = 0; call < MANY; call++) {
                calls.add(analytics.submit("one", "count", Map.of(), SOON.multipliedBy(2)));
            }
            calls.forEach(call -> assertFalse(call.cancel(true), "it was written: its server decides"));
            for (CompletableFuture<Object> call : calls) {
                CallWithdrawnException never = withdrawn(call);
                assertEquals(Map.of("phase", "queued"), never.details());
                assertEquals(Execution.NOT_BEGUN, never.execution());
            }
            released.countDown();
            assertEquals(true, holding.get(60, TimeUnit.SECONDS));
            assertEquals(1L, analytics.call("one", "count", Map.of()));
            assertEquals(1, ran.get());
        }
    }

    @Test
    void aRunningServiceSeesThatItsCallIsWithdrawnAndMayEnd() throws Exception {
        CountDownLatch cancelled = new CountDownLatch(1);
        billing.register("looks", request -> {
            request.cancellation().onCancel(cancelled::countDown);
            entered.countDown();
            assertTrue(request.cancellation().await(Duration.ofSeconds(40)));
            throw new CancellationException();
        });
        CompletableFuture<Object> call = analytics.submit("billing", "looks", Map.of(), SOON);
        assertTrue(entered.await(60, TimeUnit.SECONDS));
        assertFalse(call.cancel(true));
        CallWithdrawnException ended = withdrawn(call);
        assertEquals(Map.of("phase", "running"), ended.details());
        assertEquals(Execution.MAY_HAVE_RUN, ended.execution());
        assertTrue(cancelled.await(60, TimeUnit.SECONDS));
    }

    /** G-14: what withdraws it does not overtake it. */
    @Test
    void aLargeCallThatIsStillPutTogetherNeverRuns() throws Exception {
        try (Node one = root.builder("one", "analytics").workers(1).open()) {
            one.onMessage(message -> holdHandler()); // in the place in which the request would be put together
            one.register("count", request -> ran.incrementAndGet());
            analytics.send("one", "hold");
            assertTrue(entered.await(60, TimeUnit.SECONDS));
            analytics.segment("one", 1 << 20, 0);
            CompletableFuture<Object> large = analytics.submit("one", "count", Map.of("data", new byte[3 << 20]), SOON);
            analytics.ping("one"); // all of it was read
            assertFalse(large.cancel(true));
            awaitCount("calls_withdrawn");
            analytics.ping("one"); // and that it is withdrawn
            released.countDown();
            assertEquals(Execution.NOT_BEGUN, withdrawn(large).execution());
            assertEquals(0, ran.get());
        }
    }

    private void holdHandler() {
        try {
            hold();
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private void awaitCount(String counter) throws InterruptedException {
        long deadline = System.nanoTime() + SOON.toNanos();
        while (!((Map<?, ?>) analytics.stats().get("counters")).containsKey(counter) && System.nanoTime() < deadline) {
            Thread.sleep(5);
        }
    }

    @Test
    void aServiceThatDoesNotLookAnswersAsEver() throws Exception {
        billing.register("hold", request -> hold());
        CompletableFuture<Object> call = analytics.submit("billing", "hold", Map.of(), SOON);
        assertTrue(entered.await(60, TimeUnit.SECONDS));
        assertFalse(call.cancel(true));
        analytics.ping("billing"); // behind the withdrawal in the lane, or before it: then it answers all the same
        released.countDown();
        assertEquals(true, call.get(60, TimeUnit.SECONDS));
    }

    @Test
    void anInterruptedCallerWithdrawsItsCall() throws Exception {
        billing.register("looks", request -> {
            entered.countDown();
            assertTrue(request.cancellation().await(Duration.ofSeconds(40)));
            throw new CancellationException();
        });
        FutureTask<Boolean> call = new FutureTask<>(() -> {
            assertThrows(CallWithdrawnException.class, () -> analytics.call("billing", "looks", Map.of(), SOON));
            return Thread.interrupted();
        });
        Thread caller = new Thread(call, "caller");
        caller.start();
        assertTrue(entered.await(60, TimeUnit.SECONDS));
        caller.interrupt();
        assertTrue(call.get(60, TimeUnit.SECONDS), "the interrupt was lost");
    }

    @Test
    void aPassedDeadlineTellsTheServiceToo() throws Exception {
        CountDownLatch cancelled = new CountDownLatch(1);
        billing.register("looks", request -> {
            if (request.cancellation().await(Duration.ofSeconds(40))) {
                cancelled.countDown();
            }
            return null;
        });
        assertEquals(Execution.MAY_HAVE_RUN, lateWhileRunning("looks").execution());
        assertTrue(cancelled.await(60, TimeUnit.SECONDS));
    }

    @Test
    void ofACallerThatLeftNothingBeginsAndWhatRunsIsCancelled() throws Exception {
        CountDownLatch cancelled = new CountDownLatch(1);
        try (Node one = root.builder("one", "analytics", "billing").workers(1).open()) {
            one.register("looks", request -> {
                entered.countDown();
                request.cancellation().await(Duration.ofSeconds(40));
                cancelled.countDown();
                return null;
            });
            one.register("count", request -> ran.incrementAndGet());
            analytics.submit("one", "looks", Map.of(), SOON.multipliedBy(2));
            assertTrue(entered.await(60, TimeUnit.SECONDS));
            analytics.submit("one", "count", Map.of(), SOON.multipliedBy(2));
            analytics.ping("one"); // both have arrived
            analytics.close();
            assertTrue(cancelled.await(60, TimeUnit.SECONDS));
            assertEquals(1L, billing.call("one", "count", Map.of(), SOON));
        }
    }
}
