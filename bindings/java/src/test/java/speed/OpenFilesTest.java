package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.ConfigurationException;
import speed.internal.fs.OpenFiles;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** L-26: what others make a node hold open is bounded. */
@Timeout(300)
class OpenFilesTest {
    private static final Duration SOON = Duration.ofSeconds(60);
    private static final SendOptions ACKNOWLEDGED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);
    private static final int MANY = 24;
    private static final int FEWEST = 4;
    private static final int FILES_EACH = 3;

    private BenchRoot root;
    /** May have the files of the fewest lanes and links. */
    private Node hub;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        hub = root.builder("hub", "node.*").maxOpenFiles(1).open();
    }

    @AfterEach
    void close() throws IOException {
        hub.close();
        root.close();
    }

    private List<Node> others() {
        List<Node> nodes = new ArrayList<>();
        for (int n = 0; n < MANY; n++) {
            Node node = root.node("node." + n, "hub");
            node.register("name", request -> node.name());
            nodes.add(node);
        }
        return nodes;
    }

    private List<Integer> bellOf(int node) throws IOException {
        return OpenFiles.writing(root.path() + "/node." + node + "/bell");
    }

    @Test
    void manyShortLivedSendersMakeANodeHoldFewFilesOpen() throws IOException, InterruptedException {
        for (int n = 0; n < MANY; n++) {
            try (Node sender = root.node("node." + n)) {
                sender.send("hub", n, SendOptions.DEFAULT.withTimeout(SOON));
            }
            assertEquals((long) n, hub.receive(SOON).payload());
            int open = OpenFiles.below(root.path().resolve("hub/inbox")).size();
            assertTrue(open <= FILES_EACH * (FEWEST + 1), open + " files");
        }
    }

    @Test
    void aNodeThatWritesToManyHoldsFewFilesOpen() throws IOException {
        List<Node> nodes = others();
        for (int n = 0; n < MANY; n++) {
            hub.send("node." + n, "hello", ACKNOWLEDGED);
            int segments = OpenFiles.writing(root.path() + "/node.*/inbox/hub/.*[.]lane")
                    .size();
            assertTrue(segments <= FEWEST, segments + " segments");
            int bells = OpenFiles.writing(root.path() + "/node.*/bell").size();
            assertTrue(bells <= FEWEST, bells + " bells");
        }
        nodes.forEach(Node::close);
    }

    /** More than may be awake ask and answer, again and again. */
    @Test
    void lanesAndLinksAtRestServeCalls() {
        List<Node> nodes = others();
        hub.register("one", request -> 1);
        for (int round = 0; round < 3; round++) {
            for (Node node : nodes) {
                assertEquals(node.name(), hub.call(node.name(), "name", Map.of(), SOON));
                assertEquals(1L, node.call("hub", "one", Map.of(), SOON));
            }
        }
        nodes.forEach(Node::close);
    }

    /** S-7: whoever waits for an answer is told at once when the other one dies. */
    @Test
    void theBellOfALinkThatWakesIsWatchedAgain() throws IOException {
        List<Node> nodes = others();
        for (int n = 0; n <= FEWEST; n++) {
            hub.call("node." + n, "name", Map.of(), SOON);
        }
        assertEquals(List.of(), bellOf(0));
        hub.call("node.0", "name", Map.of(), SOON);
        assertEquals(1, bellOf(0).size());
        assertTrue(OpenFiles.isWatched(bellOf(0).get(0)));
        nodes.forEach(Node::close);
    }

    @Test
    void aNodeNeedsAFileAtLeast() {
        assertThrows(
                ConfigurationException.class,
                () -> root.builder("other").maxOpenFiles(0).open());
    }
}
