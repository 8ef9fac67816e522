package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import speed.errors.InboxFullException;
import speed.errors.NodeClosedException;
import speed.options.SendOptions;

/** Whom a full inbox holds up: nobody but those that send there, each until its own deadline (L-6). */
class FullInboxTest extends TwoNodes {
    private static final Duration LONG = Duration.ofSeconds(50);
    private static final SendOptions BRIEF = SendOptions.DEFAULT.withTimeout(Duration.ofMillis(50));
    private static final int IN_HAND = 16384;
    private static final byte[] LARGE = new byte[120_000];

    private Node sender;

    @BeforeEach
    void openSender() {
        sender = root.builder("sender", "analytics", "billing")
                .workers(1)
                .maxLaneBytes(200_000)
                .open();
        billing.allow("sender");
        analytics.allow("sender");
    }

    @AfterEach
    void closeSender() {
        sender.close(Duration.ZERO);
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(work, "waits");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void await(BooleanSupplier condition) {
        long until = System.nanoTime() + SOON.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < until, "it does not happen");
            Thread.yield();
        }
    }

    private static long count(Node node, String what) {
        return ((Map<?, ?>) node.stats().get("counters")).get(what) instanceof Long counted ? counted : 0;
    }

    /** Fills the inbox of a node that takes nothing, and has one more sender wait for room. */
    private FutureTask<String> fill(String target) {
        sender.send(target, LARGE, BRIEF);
        FutureTask<String> waiting = send(target, LONG);
        Thread thread = start(waiting);
        await(() -> thread.getState() == Thread.State.TIMED_WAITING);
        return waiting;
    }

    private FutureTask<String> send(String target, Duration timeout) {
        return new FutureTask<>(() -> sender.send(target, LARGE, SendOptions.DEFAULT.withTimeout(timeout)));
    }

    @Test
    void eachSenderWaitsForRoomUntilItsOwnDeadline() throws Exception {
        FutureTask<String> patient = fill("billing");
        FutureTask<String> brief = send("billing", Duration.ofMillis(50));
        start(brief);
        ExecutionException full = assertThrows(ExecutionException.class, () -> brief.get(60, TimeUnit.SECONDS));
        assertEquals(InboxFullException.class, full.getCause().getClass());
        assertFalse(patient.isDone());
        while (!patient.isDone()) {
            billing.receive(Duration.ofMillis(100));
        }
        patient.get();
    }

    @Test
    void aSenderThatWaitsForRoomIsNotifiedThatItsNodeWasClosed() {
        FutureTask<String> patient = fill("billing");
        sender.close(Duration.ZERO);
        ExecutionException closed = assertThrows(ExecutionException.class, () -> patient.get(60, TimeUnit.SECONDS));
        assertEquals(NodeClosedException.class, closed.getCause().getClass());
    }

    /** S-11: the reader answers the successor of a node that another thread waits for, then the others. */
    @Test
    void theReaderDoesNotWaitForASender() {
        FutureTask<String> patient = fill("billing");
        billing.close();
        billing = root.node("billing", "analytics", "sender");
        FutureTask<Duration> ping = new FutureTask<>(() -> billing.ping("sender"));
        start(ping);
        await(() -> count(sender, "replies_undelivered") > 0);
        assertTrue(analytics.ping("sender").toNanos() > 0);
        assertFalse(patient.isDone());
        ping.cancel(true);
    }

    /** S-5, S-10: who read two requests together is held up in the second, and the first's answer finds no room. */
    @Test
    void anAnswerThatFindsNoRoomHoldsUpNoReader() throws Exception {
        CountDownLatch slow = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        sender.register("quick", request -> "quick");
        sender.register("slow", request -> {
            slow.countDown();
            return released.await(60, TimeUnit.SECONDS);
        });
        for (int call = 0; call < 300; call++) { // from here on it takes less time than answers may wait for each other
            analytics.call("sender", "quick", Map.of());
        }
        fill("billing");
        billing.sendAll("sender", IntStream.range(0, IN_HAND).boxed().toList());
        await(() -> count(sender, "messages_received") == IN_HAND);
        CompletableFuture<Object> quick = billing.submit("sender", "quick", Map.of());
        billing.submit("sender", "slow", Map.of());
        sender.receive(SOON);
        sender.receive(SOON); // one is finished: the lane is read again
        assertTrue(slow.await(60, TimeUnit.SECONDS));
        assertEquals(List.of("quick", "slow"), analytics.services("sender"));
        if (count(sender, "answers_undelivered")
                == 0) { // else the worker itself had the time to wait for room, in vain
            while (!quick.isDone()) {
                billing.receive(Duration.ofMillis(100));
            }
            assertEquals("quick", quick.get());
        }
        released.countDown();
    }
}
