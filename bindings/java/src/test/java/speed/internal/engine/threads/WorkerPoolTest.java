package speed.internal.engine.threads;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The threads of a node, between a request that is taken and its beginning. */
@Timeout(300)
class WorkerPoolTest {
    private static final long LATE = Long.MAX_VALUE / 2;

    private final WorkerPool pool = new WorkerPool("test", 4);
    private final CountDownLatch taken = new CountDownLatch(1);
    private final CountDownLatch mayBegin = new CountDownLatch(1);
    private final CountDownLatch mayEnd = new CountDownLatch(1);
    private final CountDownLatch next = new CountDownLatch(1);

    @AfterEach
    void stop() {
        mayBegin.countDown();
        mayEnd.countDown();
        pool.stop();
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException torn) {
            throw new AssertionError(torn);
        }
    }

    /** S-5: however long the thread of the first one is held up, the second one starts behind it, and side by side. */
    @Test
    void requestsOfOneSenderBeginInOrderAndRunSideBySide() throws InterruptedException {
        pool.request(
                "analytics",
                "1",
                work -> {
                    taken.countDown();
                    await(mayBegin);
                    pool.begun();
                    await(mayEnd);
                },
                LATE);
        await(taken);
        pool.request("analytics", "2", work -> next.countDown(), LATE);
        assertFalse(next.await(300, TimeUnit.MILLISECONDS), "it overtook what had not begun");
        mayBegin.countDown();
        await(next);
    }

    /** Nobody waits for a request that waits itself, or ends without ever having begun. */
    @Test
    void aRequestThatWaitsOrEndsHoldsUpNothing() {
        pool.request(
                "analytics",
                "1",
                work -> pool.blocking(() -> {
                    await(next);
                    return null;
                }),
                LATE);
        pool.request("analytics", "2", work -> {}, LATE);
        pool.request("analytics", "3", work -> next.countDown(), LATE);
        await(next);
    }
}
