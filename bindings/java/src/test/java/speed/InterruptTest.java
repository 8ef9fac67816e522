package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** An interrupt ends a wait at most: a java.nio channel would be closed by it, for all other threads too. */
class InterruptTest extends TwoNodes {
    private final CountDownLatch started = new CountDownLatch(1);
    private final CountDownLatch released = new CountDownLatch(1);

    private static <T> FutureTask<T> inThread(String name, Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** The caller reads its answer itself, so this interrupts a thread in the middle of a read (decision 0007). */
    @Test
    void aCallerInterruptedWhileItReadsGetsItsAnswerAndOthersGetTheirs() throws Exception {
        billing.register("slow", request -> {
            started.countDown();
            return released.await(60, TimeUnit.SECONDS);
        });
        billing.register("quick", request -> "done");
        Thread[] caller = new Thread[1];
        FutureTask<Boolean> slow = inThread("caller", () -> {
            caller[0] = Thread.currentThread();
            call("slow");
            return Thread.interrupted();
        });
        assertTrue(started.await(60, TimeUnit.SECONDS));
        caller[0].interrupt();
        assertEquals("done", call("quick"));
        caller[0].interrupt();
        released.countDown();
        assertTrue(slow.get(60, TimeUnit.SECONDS), "the interrupt was lost");
        assertEquals("done", call("quick"));
    }

    @Test
    void anInterruptedReceiverLosesNothing() throws Exception {
        Thread[] receiver = new Thread[1];
        FutureTask<Message> waiting = inThread("receiver", () -> {
            receiver[0] = Thread.currentThread();
            started.countDown();
            return billing.receive(SOON);
        });
        assertTrue(started.await(60, TimeUnit.SECONDS));
        receiver[0].interrupt();
        ExecutionException ended = assertThrows(ExecutionException.class, () -> waiting.get(60, TimeUnit.SECONDS));
        assertTrue(
                ended.getCause() instanceof InterruptedException,
                ended.getCause().toString());
        analytics.send("billing", "kept");
        assertEquals("kept", billing.receive(SOON).payload());
    }

    @Test
    void aThreadThatIsInterruptedAlreadyCallsAndSendsAllTheSame() throws InterruptedException {
        billing.register("one", request -> 1);
        Thread.currentThread().interrupt();
        assertEquals(1L, analytics.call("billing", "one", Map.of()));
        analytics.send("billing", "sent");
        assertTrue(Thread.interrupted(), "the interrupt was lost");
        assertEquals("sent", billing.receive(SOON).payload());
    }

    @Test
    void aServiceInterruptedInTheMiddleHarmsNoOther() throws Exception {
        Thread[] worker = new Thread[1];
        billing.register("slow", request -> {
            worker[0] = Thread.currentThread();
            started.countDown();
            return released.await(60, TimeUnit.SECONDS);
        });
        billing.register("quick", request -> "done");
        var slow = analytics.submit("billing", "slow", Map.of());
        assertTrue(started.await(60, TimeUnit.SECONDS));
        worker[0].interrupt();
        ExecutionException failed = assertThrows(ExecutionException.class, () -> slow.get(60, TimeUnit.SECONDS));
        assertEquals("ExecutionFailedException", failed.getCause().getClass().getSimpleName());
        assertEquals("done", call("quick"));
    }
}
