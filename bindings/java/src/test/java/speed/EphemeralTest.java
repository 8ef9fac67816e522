package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.tool.BenchRoot;

/** L-15, L-27: of nodes whose names do not come back nothing stays, and nothing comes back. */
@Timeout(300)
class EphemeralTest {
    private static final Duration SOON = Duration.ofSeconds(60);
    private static final int MANY = 60;

    private BenchRoot root;
    private Node hub;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        hub = root.node("hub", "sender.*");
        hub.register("double", request -> 2 * (Long) request.arguments().get("n"));
    }

    @AfterEach
    void close() throws IOException {
        hub.close();
        root.close();
    }

    private Node sender(int number) {
        return root.builder("sender." + number, "hub").ephemeral().open();
    }

    /** What comes next; nothing stays in hand. */
    private Object received() throws InterruptedException {
        Object payload = hub.receive(SOON).payload();
        assertNull(hub.receive(Duration.ofMillis(1)));
        return payload;
    }

    /** Everything in the root that bears the name of a sender. */
    private List<Path> leftovers() throws IOException {
        try (Stream<Path> files = Files.find(
                root.path(),
                4,
                (file, attributes) -> file.getFileName().toString().startsWith("sender."))) {
            return files.toList();
        } catch (java.io.UncheckedIOException changing) {
            return List.of(root.path()); // something is just being removed
        }
    }

    private void awaitNothingLeft() throws IOException, InterruptedException {
        long until = System.nanoTime() + 60_000_000_000L;
        for (List<Path> left = leftovers(); !left.isEmpty(); left = leftovers()) {
            assertTrue(System.nanoTime() < until, left.toString());
            Thread.sleep(20);
        }
    }

    @Test
    void nothingStaysOfManyShortLivedSenders() throws IOException, InterruptedException {
        for (int n = 0; n < MANY; n++) {
            try (Node sender = sender(n)) {
                assertEquals(2L * n, sender.call("hub", "double", Map.of("n", n), SOON));
            }
        }
        awaitNothingLeft();
    }

    /** Nobody who left in order holds a lane of it: it does not wait for others. */
    @Test
    void aNodeThatWroteToNobodyForgetsItself() throws IOException {
        sender(1).close();
        assertEquals(List.of(), leftovers());
    }

    @Test
    void whatAnEphemeralNodeSentBeforeItsEndArrives() throws IOException, InterruptedException {
        for (int n = 0; n < 3; n++) {
            try (Node sender = sender(1)) {
                sender.send("hub", n);
            }
            assertEquals((long) n, received());
        }
        awaitNothingLeft();
    }

    /** Its segment is authentic, and was read long ago. */
    @Test
    void aRecordedSegmentOfAForgottenNameIsNotTakenAgain() throws IOException, InterruptedException {
        Path lane = root.path().resolve("hub/inbox/sender.1");
        byte[] recorded;
        try (Node sender = sender(1)) {
            sender.send("hub", "old");
            assertEquals("old", received());
            recorded = Files.readAllBytes(lane.resolve("000001-00000001.lane"));
        }
        awaitNothingLeft();
        Files.createDirectory(lane);
        Files.write(lane.resolve("000001-00000001.lane"), recorded);
        try (Node sender = sender(1)) {
            sender.send("hub", "new");
            assertEquals("new", received());
        }
    }
}
