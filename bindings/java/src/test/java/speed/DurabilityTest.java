package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.StorageException;
import speed.internal.fs.HeldFlushes;
import speed.tool.BenchRoot;

/** L-7: what was sent with durability {@code disk} is on the disk when the send returns. */
@Timeout(300)
class DurabilityTest {
    private static final int THREADS = 16;
    /** So many that the headers of all threads' envelopes do not add up to one message. */
    private static final int MESSAGE_BYTES = 10_000;

    private static final long SECONDS = 60;

    private final HeldFlushes flushes = new HeldFlushes();
    private BenchRoot root;
    private Node receiver;
    private Node sender;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot("target"); // on a disk
        receiver = root.node("receiver", "sender");
        sender = Node.builder("sender")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .durable()
                .open();
    }

    @AfterEach
    void close() throws IOException {
        flushes.release(Integer.MAX_VALUE / 2);
        sender.close();
        receiver.close();
        root.close();
        flushes.close();
    }

    private static <T> FutureTask<T> inThread(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task, "sending");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** As many sends as there are threads, all but one while the first flushes its own envelope. */
    private List<FutureTask<String>> sendFromThreads() throws Exception {
        List<FutureTask<String>> sends = new ArrayList<>();
        sends.add(sendInThread());
        flushes.awaitBegun();
        while (sends.size() < THREADS) {
            sends.add(sendInThread());
        }
        return sends;
    }

    private FutureTask<String> sendInThread() {
        return inThread(() -> sender.send("receiver", new byte[MESSAGE_BYTES]));
    }

    /** Bytes in the one segment from sender to receiver. */
    private long appended() throws IOException {
        Path segment = root.path().resolve("receiver/inbox/sender/000001-00000001.lane");
        return Files.exists(segment) ? Files.size(segment) : 0;
    }

    private void awaitAppended(long bytes) throws IOException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (appended() < bytes) {
            assertTrue(System.nanoTime() < deadline, "not appended");
            Thread.yield();
        }
    }

    @Test
    void threadsThatSendAtOnceShareAFlush() throws Exception {
        List<FutureTask<String>> sends = sendFromThreads();
        awaitAppended(THREADS * MESSAGE_BYTES);
        assertTrue(sends.stream().noneMatch(FutureTask::isDone));
        flushes.release(THREADS);
        for (FutureTask<String> send : sends) {
            send.get(SECONDS, TimeUnit.SECONDS);
        }
        assertEquals(2, flushes.count());
    }

    /** A device reports a loss once; a later flush that succeeds proves nothing. */
    @Test
    void aFlushThatFailsIsReportedToAllWhoseEnvelopesItWasFor() throws Exception {
        flushes.fail(true);
        List<FutureTask<String>> sends = sendFromThreads();
        awaitAppended(THREADS * MESSAGE_BYTES);
        flushes.release(1);
        flushes.awaitBegun();
        flushes.fail(false);
        flushes.release(THREADS);
        for (FutureTask<String> send : sends) {
            ExecutionException failure =
                    assertThrows(ExecutionException.class, () -> send.get(SECONDS, TimeUnit.SECONDS));
            assertEquals(StorageException.class, failure.getCause().getClass());
        }
        sender.send("receiver", "later");
    }

    @Test
    void eachWriteOfManyMessagesIsFlushedBeforeTheNext() throws Exception {
        List<byte[]> payloads = Collections.nCopies(130, new byte[100]);
        FutureTask<Void> send = inThread(() -> {
            sender.sendAll("receiver", payloads);
            return null;
        });
        flushes.awaitBegun();
        long ofOneWrite = appended();
        flushes.release(1);
        flushes.awaitBegun();
        assertEquals(2 * ofOneWrite, appended());
        flushes.release(1);
        flushes.awaitBegun();
        assertEquals(ofOneWrite * 130 / 64, appended());
        assertFalse(send.isDone());
        flushes.release(1);
        send.get(SECONDS, TimeUnit.SECONDS);
    }
}
