package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import speed.errors.AccessDeniedException;
import speed.errors.ConfigurationException;
import speed.errors.InboxFullException;
import speed.errors.UnserialisableException;
import speed.options.SendOptions;

/** Many messages in one write. */
class SendAllTest extends TwoNodes {
    private static final SendOptions ACKNOWLEDGED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);
    private static final int IN_ONE_WRITE = 64;

    /** A sender whose lanes hold few bytes. */
    private Node narrow(int laneBytes) {
        billing.allow("narrow");
        return Node.builder("narrow")
                .root(root.path())
                .key(root.path().resolve("speed.key"))
                .maxLaneBytes(laneBytes)
                .open();
    }

    private void assertReceived(long first, long end) throws InterruptedException {
        for (long n = first; n < end; n++) {
            assertEquals(n, billing.receive(SOON).payload());
        }
    }

    /** L-3, L-4: large ones do not share a write. */
    @Test
    void messagesSentAtOnceArriveInTheirOrderWhateverTheirSize() {
        List<byte[]> payloads = IntStream.range(0, 200)
                .mapToObj(n -> {
                    byte[] payload = new byte[n % 50 == 7 ? 200_000 : 200];
                    Arrays.fill(payload, (byte) n);
                    return payload;
                })
                .toList();
        List<byte[]> seen = new ArrayList<>();
        billing.onMessage(message -> seen.add((byte[]) message.payload()));
        analytics.sendAll("billing", payloads);
        analytics.sendAll("billing", List.of());
        analytics.send("billing", new byte[] {1}, ACKNOWLEDGED);
        assertEquals(201, seen.size());
        for (int n = 0; n < 200; n++) {
            assertArrayEquals(payloads.get(n), seen.get(n));
        }
    }

    @Test
    void eachOfThemHasTheMetadataAndAnIdOfItsOwn() throws InterruptedException {
        analytics.sendAll("billing", Arrays.asList("one", null), SendOptions.DEFAULT.withTopic("numbers"));
        Message one = billing.receive(SOON);
        Message none = billing.receive(SOON);
        assertEquals("one", one.payload());
        assertNull(none.payload());
        assertEquals(List.of("numbers", "numbers"), List.of(one.topic(), none.topic()));
        assertFalse(one.messageId().equals(none.messageId()));
    }

    /** L-6. */
    @Test
    void whereTheLaneIsFullInTheMiddleTheNextWriteWaitsForRoom() {
        List<Object> seen = new ArrayList<>();
        billing.onMessage(message -> seen.add(message.payload()));
        List<Long> payloads = IntStream.range(0, 1000).mapToObj(n -> (long) n).toList();
        try (Node sender = narrow(2000)) {
            sender.sendAll("billing", payloads, SendOptions.DEFAULT.withTimeout(SOON));
            sender.send("billing", 1000, ACKNOWLEDGED);
        }
        assertEquals(payloads, seen.subList(0, 1000));
    }

    /** L-6: an empty lane takes the first write; the second finds no room. */
    @Test
    void whenTheLaneStaysFullInTheMiddleOnlyTheWritesBeforeWereAccepted() throws InterruptedException {
        List<Integer> payloads = IntStream.range(0, 2 * IN_ONE_WRITE).boxed().toList();
        SendOptions brief = SendOptions.DEFAULT.withTimeout(Duration.ofMillis(50));
        try (Node sender = narrow(2000)) {
            assertThrows(InboxFullException.class, () -> sender.sendAll("billing", payloads, brief));
            assertReceived(0, IN_ONE_WRITE);
            assertNull(billing.receive(Duration.ZERO));
            sender.send("billing", 500, SendOptions.DEFAULT.withTimeout(SOON));
            assertReceived(500, 501);
        }
    }

    @Test
    void whenOneInTheMiddleCannotBeEncodedOnlyTheWritesBeforeWereAccepted() throws InterruptedException {
        List<Object> payloads =
                new ArrayList<>(IntStream.range(0, 2 * IN_ONE_WRITE).boxed().toList());
        payloads.set(IN_ONE_WRITE, new Object());
        assertThrows(UnserialisableException.class, () -> analytics.sendAll("billing", payloads));
        analytics.send("billing", IN_ONE_WRITE);
        assertReceived(0, IN_ONE_WRITE + 1);
        payloads.set(1, new Object());
        assertThrows(UnserialisableException.class, () -> analytics.sendAll("billing", payloads));
        analytics.send("billing", 7);
        assertReceived(7, 8);
    }

    /** */
    @Test
    void noneReachesANodeThatDoesNotAllowIt() {
        try (Node stranger = root.node("stranger")) {
            assertThrows(AccessDeniedException.class, () -> stranger.sendAll("billing", List.of(1, 2, 3)));
        }
        assertFalse(Files.exists(root.path().resolve("billing/inbox/stranger")));
    }

    @Test
    void whoAsksForAcknowledgementsIsRefusedBeforeAnythingIsSent() throws InterruptedException {
        List<Integer> payloads = Collections.nCopies(3, 1);
        assertThrows(ConfigurationException.class, () -> analytics.sendAll("billing", payloads, ACKNOWLEDGED));
        assertNull(billing.receive(Duration.ofMillis(1)));
    }
}
