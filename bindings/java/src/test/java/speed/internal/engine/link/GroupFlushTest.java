package speed.internal.engine.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Group commit: what threads append while a flush runs is in the next one, once for all of them (L-7). */
class GroupFlushTest {
    private final GroupFlush flushes = new GroupFlush();
    private final AtomicInteger later = new AtomicInteger();
    private final CountDownLatch begun = new CountDownLatch(1);
    private final CountDownLatch mayEnd = new CountDownLatch(1);

    private Thread waiting(long counter, long covered) {
        Thread thread = new Thread(() -> flushes.await(counter, () -> {
            later.incrementAndGet();
            return covered;
        }));
        thread.start();
        return thread;
    }

    /** A first thread flushes counter 1 until the test lets it end. */
    private Thread flushing() throws InterruptedException {
        Thread thread = new Thread(() -> flushes.await(1, () -> {
            begun.countDown();
            awaitEnd();
            return 1;
        }));
        thread.start();
        begun.await();
        return thread;
    }

    private void awaitEnd() {
        try {
            mayEnd.await();
        } catch (InterruptedException never) {
            throw new AssertionError(never);
        }
    }

    @Test
    void whatWasCoveredAlreadyIsNotFlushedAgain() throws InterruptedException {
        for (long counter : new long[] {7, 3, 7}) {
            waiting(counter, 7).join();
        }
        assertEquals(1, later.get());
    }

    @Test
    void threadsThatAppendWhileAFlushRunsShareTheNextOne() throws InterruptedException {
        List<Thread> threads = new ArrayList<>(List.of(flushing()));
        for (long counter = 2; counter <= 9; counter++) {
            threads.add(waiting(counter, 9));
        }
        mayEnd.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(1, later.get());
    }

    @Test
    void anInterruptWaitsUntilTheFlushIsOver() throws InterruptedException {
        Thread first = flushing();
        AtomicInteger interrupted = new AtomicInteger();
        Thread second = new Thread(() -> {
            Thread.currentThread().interrupt();
            flushes.await(2, () -> 2);
            interrupted.set(Thread.interrupted() ? 1 : 0);
        });
        second.start();
        mayEnd.countDown();
        first.join();
        second.join();
        assertEquals(1, interrupted.get());
    }

    @Test
    void aFlushThatThrowsKeepsNobodyWaiting() throws InterruptedException {
        assertThrows(
                IllegalStateException.class,
                () -> flushes.await(1, () -> {
                    throw new IllegalStateException("the device is gone");
                }));
        waiting(1, 1).join();
        assertEquals(1, later.get());
    }
}
