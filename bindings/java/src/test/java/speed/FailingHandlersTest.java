package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import speed.errors.ExecutionFailedException;
import speed.internal.wire.Limits;
import speed.options.OnError;
import speed.options.SendOptions;

/** S-17, S-18: messages whose handler fails are kept, tried again or dropped, as the node's policy says. */
class FailingHandlersTest extends TwoNodes {
    private static final SendOptions ACKNOWLEDGED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);

    private final BlockingQueue<String> handled = new LinkedBlockingQueue<>();

    private void reopen(OnError policy, int maxDeliveries) {
        billing.close();
        billing = root.builder("billing", "analytics")
                .onError(policy)
                .maxDeliveries(maxDeliveries)
                .open();
    }

    private void failFor(String payload, int times) {
        int[] failures = new int[1];
        billing.onMessage(message -> {
            handled.add(message.payload() + " " + message.deliveries());
            if (payload.equals(message.payload()) && failures[0]++ < times) {
                throw new IllegalStateException("no luck");
            }
        });
    }

    private void assertHandled(String... expected) throws InterruptedException {
        for (String one : expected) {
            assertEquals(one, handled.poll(60, TimeUnit.SECONDS));
        }
    }

    private List<String> letters() throws IOException {
        Path dead = root.path().resolve("billing/dead");
        if (!Files.exists(dead)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(dead)) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    private long count(String counter) {
        Object value = ((Map<?, ?>) billing.stats().get("counters")).get(counter);
        return value == null ? 0 : ((Number) value).longValue();
    }

    @Test
    void aMessageWhoseHandlerFailedIsADeadLetterAndTheNextIsHandled() throws Exception {
        failFor("bad", 1);
        analytics.send("billing", "bad");
        analytics.send("billing", "good", ACKNOWLEDGED);
        assertHandled("bad 1", "good 1");
        assertEquals(List.of("00000001.letter"), letters());
        assertEquals(1, count("dead_letters"));
    }

    @Test
    void aDeadLetterThatIsToBeTriedAgainIsHandledAndGone() throws Exception {
        failFor("bad", 1);
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "bad", ACKNOWLEDGED));
        assertHandled("bad 1");
        Path dead = root.path().resolve("billing/dead");
        Files.move(dead.resolve("00000001.letter"), dead.resolve("00000001.retry"));
        assertHandled("bad 2");
        for (long until = System.nanoTime() + SOON.toNanos(); !letters().isEmpty(); Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < until, () -> "it is still there");
        }
        assertEquals(1, count("dead_letters_tried_again"));
    }

    @Test
    void aDeadLetterThatFailsAgainIsALetterAgain() throws Exception {
        failFor("bad", 2);
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "bad", ACKNOWLEDGED));
        Path dead = root.path().resolve("billing/dead");
        Files.move(dead.resolve("00000001.letter"), dead.resolve("00000001.retry"));
        assertHandled("bad 1", "bad 2");
        for (long until = System.nanoTime() + SOON.toNanos();
                !letters().equals(List.of("00000001.letter"));
                Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < until, () -> "it is no letter again");
        }
    }

    /** As many files as a store may have; what is in them counts for nothing. */
    private Path fullStore() throws IOException {
        Path dead = Files.createDirectory(
                root.path().resolve("billing/dead"),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        for (int number = 1; number <= Limits.MAX_DEAD_LETTERS; number++) {
            Files.createFile(dead.resolve("%08d.letter".formatted(number)));
        }
        return dead;
    }

    @Test
    void whereTheStoreIsFullAMessageIsTriedAgainInItsPlaceAndNoneIsLost() throws Exception {
        fullStore();
        failFor("bad", 2);
        analytics.send("billing", "bad");
        analytics.send("billing", "next", ACKNOWLEDGED);
        assertHandled("bad 1", "bad 2", "bad 3", "next 1");
        assertEquals(Limits.MAX_DEAD_LETTERS, letters().size());
        assertEquals(2, count("dead_letters_without_room"));
        assertEquals(0, count("dead_letters"));
    }

    @Test
    void aMessageThatWaitsForRoomIsADeadLetterOnceThereIsSome() throws Exception {
        Path dead = fullStore();
        failFor("bad", Integer.MAX_VALUE);
        analytics.send("billing", "bad");
        analytics.send("billing", "next");
        assertHandled("bad 1", "bad 2");
        Files.delete(dead.resolve("00000001.letter"));
        String one = handled.poll(60, TimeUnit.SECONDS);
        while (one != null && one.startsWith("bad ")) {
            one = handled.poll(60, TimeUnit.SECONDS);
        }
        assertEquals("next 1", one);
        assertTrue(letters().contains("%08d.letter".formatted(Limits.MAX_DEAD_LETTERS + 1)));
    }

    @Test
    void withRetryAMessageIsHandledAgainInItsPlace() throws Exception {
        reopen(OnError.RETRY, 5);
        failFor("bad", 2);
        analytics.send("billing", "bad");
        analytics.send("billing", "next", ACKNOWLEDGED);
        assertHandled("bad 1", "bad 2", "bad 3", "next 1");
        assertEquals(List.of(), letters());
    }

    @Test
    void withRetryAMessageIsADeadLetterAfterSoManyTimes() throws Exception {
        reopen(OnError.RETRY, 2);
        failFor("bad", 9);
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "bad", ACKNOWLEDGED));
        analytics.send("billing", "next", ACKNOWLEDGED);
        assertHandled("bad 1", "bad 2", "next 1");
        assertEquals(List.of("00000001.letter"), letters());
    }

    @Test
    void withDropAMessageThatFailedIsCountedAndGone() throws Exception {
        reopen(OnError.DROP, 5);
        failFor("bad", 1);
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "bad", ACKNOWLEDGED));
        analytics.send("billing", "next", ACKNOWLEDGED);
        assertHandled("bad 1", "next 1");
        assertEquals(List.of(), letters());
        assertEquals(1, count("messages_dropped"));
    }

    @Test
    void anEventWhoseHandlerFailedIsADeadLetterToo() throws Exception {
        billing.subscribe("orders.*", message -> {
            throw new IllegalStateException("no luck");
        });
        assertEquals(List.of("billing"), analytics.publish("orders.new", 1).delivered());
        for (long until = System.nanoTime() + SOON.toNanos(); letters().isEmpty(); Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < until, () -> "there is none");
        }
    }
}
