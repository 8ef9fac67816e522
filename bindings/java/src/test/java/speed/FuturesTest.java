package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import speed.errors.CallTimeoutException;
import speed.errors.NodeClosedException;

/** S-7: the future of a call ends whatever workers do and whatever hangs on others. */
class FuturesTest extends TwoNodes {
    private static final int WORKERS = 4;

    private final CountDownLatch released = new CountDownLatch(1);

    private static Object get(CompletableFuture<Object> future) throws Exception {
        return future.get(60, TimeUnit.SECONDS);
    }

    private Object hold() throws InterruptedException {
        return released.await(60, TimeUnit.SECONDS);
    }

    private static Throwable failure(CompletableFuture<Object> future) {
        return assertThrows(ExecutionException.class, () -> get(future)).getCause();
    }

    /** S-5: services that wait for futures on all workers. */
    @Test
    void futuresEndWhileAllWorkersWaitForThem() throws Exception {
        CyclicBarrier all = new CyclicBarrier(WORKERS);
        analytics.register("one", request -> 1);
        billing.register("ask", request -> {
            all.await(60, TimeUnit.SECONDS);
            return get(billing.submit("analytics", "one", Map.of()));
        });
        List<CompletableFuture<Object>> calls = new ArrayList<>();
        for (int call = 0; call < WORKERS; call++) {
            calls.add(analytics.submit("billing", "ask", Map.of(), SOON));
        }
        for (CompletableFuture<Object> call : calls) {
            assertEquals(1L, get(call));
        }
    }

    /** S-4. */
    @Test
    void aFutureTimesOutWhileTheOnlyWorkerWaitsForIt() throws Exception {
        analytics.register("slow", request -> hold());
        try (Node single = root.builder("single", "analytics").workers(1).open()) {
            analytics.allow("single");
            single.register(
                    "ask",
                    request -> failure(single.submit("analytics", "slow", Map.of(), Duration.ofMillis(50)))
                            .getClass()
                            .getName());
            assertEquals(CallTimeoutException.class.getName(), analytics.call("single", "ask", Map.of(), SOON));
            released.countDown();
        }
    }

    @Test
    void whatHangsOnOneFutureMayWaitForTheNext() throws Exception {
        billing.register("one", request -> hold());
        CountDownLatch last = new CountDownLatch(1);
        List<CompletableFuture<Boolean>> waiting = new ArrayList<>();
        for (int call = 0; call < 2 * WORKERS; call++) {
            waiting.add(analytics.submit("billing", "one", Map.of()).thenApply(one -> awaits(last, 45)));
        }
        analytics.submit("billing", "one", Map.of()).thenRun(last::countDown);
        released.countDown(); // what hangs on a future that ended already runs at once, in this thread
        for (CompletableFuture<Boolean> future : waiting) {
            assertTrue(future.get(60, TimeUnit.SECONDS));
        }
    }

    /** The reader wakes it: no other thread has to run in between. */
    @Test
    void aThreadThatWaitsForAFutureMakesItsResultItself() throws Exception {
        billing.register("one", request -> hold());
        CompletableFuture<Object> call = analytics.submit("billing", "one", Map.of());
        CompletableFuture<Thread> made = call.thenApply(one -> Thread.currentThread());
        Thread waiter = Thread.currentThread();
        Thread releaser = new Thread(() -> {
            while (waiter.getState() != Thread.State.TIMED_WAITING) {
                Thread.yield();
            }
            released.countDown();
        });
        releaser.setDaemon(true);
        releaser.start();
        assertEquals(true, get(call));
        assertSame(waiter, made.get(60, TimeUnit.SECONDS));
    }

    @Test
    void aFutureEndsWithoutAThreadThatWaitsOrWaitedTooShort() throws Exception {
        billing.register("one", request -> hold());
        CompletableFuture<Object> call = analytics.submit("billing", "one", Map.of());
        assertThrows(TimeoutException.class, () -> call.get(10, TimeUnit.MILLISECONDS));
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> call.get(60, TimeUnit.SECONDS));
        CompletableFuture<Boolean> ended = call.thenApply(one -> true);
        released.countDown();
        assertTrue(ended.get(60, TimeUnit.SECONDS));
        assertEquals(true, call.get());
    }

    @Test
    void aProgramThatEndsAFutureItselfWakesWhoWaitsForIt() throws Exception {
        billing.register("slow", request -> hold());
        CompletableFuture<Object> call = analytics.submit("billing", "slow", Map.of());
        CompletableFuture<Object> late = analytics.submit("billing", "slow", Map.of());
        CompletableFuture.delayedExecutor(100, TimeUnit.MILLISECONDS).execute(() -> call.complete("mine"));
        late.orTimeout(100, TimeUnit.MILLISECONDS);
        assertEquals("mine", get(call));
        assertEquals(TimeoutException.class, failure(late).getClass());
        released.countDown();
    }

    private static boolean awaits(CountDownLatch latch, int seconds) {
        try {
            return latch.await(seconds, TimeUnit.SECONDS);
        } catch (InterruptedException hurry) {
            return false;
        }
    }

    @Test
    void aClosedNodeEndsItsFuturesWhateverHangsOnThem() throws Exception {
        billing.register("slow", request -> hold());
        CountDownLatch over = new CountDownLatch(1);
        List<CompletableFuture<Object>> calls = new ArrayList<>();
        for (int call = 0; call < 2 * WORKERS; call++) {
            calls.add(analytics.submit("billing", "slow", Map.of()));
        }
        calls.forEach(call -> call.whenComplete((result, error) -> awaits(over, 40)));
        FutureTask<Void> closing = new FutureTask<>(() -> analytics.close(Duration.ZERO), null);
        Thread closer = new Thread(closing);
        closer.setDaemon(true);
        closer.start();
        closing.get(60, TimeUnit.SECONDS);
        long until = System.nanoTime() + SOON.toNanos();
        while (!calls.stream().allMatch(CompletableFuture::isDone)) { // who gets one would run what hangs on it
            assertTrue(System.nanoTime() < until, "futures are left");
            Thread.yield();
        }
        over.countDown();
        released.countDown();
        for (CompletableFuture<Object> call : calls) {
            assertEquals(NodeClosedException.class, failure(call).getClass());
        }
    }
}
