package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.AccessDeniedException;
import speed.errors.ConfigurationException;
import speed.internal.fs.KeyFiles;
import speed.internal.fs.ObserverFile;
import speed.internal.fs.Registry;
import speed.options.ServiceOptions;
import speed.tool.BenchRoot;

/** Who the owner of a root lets look at its nodes: they ping and read figures without a grant, no more. */
@Timeout(300)
class ObserversTest {
    @TempDir
    Path place;

    private BenchRoot root;
    private Node pricing;
    private Node looker;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        write("cli.*\n");
        pricing = root.builder("pricing")
                .lease(Duration.ofSeconds(20), Duration.ofMillis(100))
                .open();
        looker = root.node("cli.1");
    }

    @AfterEach
    void close() throws IOException {
        looker.close();
        pricing.close();
        root.close();
    }

    private Path file() {
        return root.path().resolve("speed_registry/.observers");
    }

    private void write(String text) throws IOException {
        Files.createDirectories(file().getParent());
        Files.setPosixFilePermissions(file().getParent(), PosixFilePermissions.fromString("rwx------"));
        Files.writeString(file(), text);
        rights("rw-------");
    }

    private void rights(String rights) throws IOException {
        Files.setPosixFilePermissions(file(), PosixFilePermissions.fromString(rights));
    }

    /** What the entry of the node says, once it says so. */
    private void awaitObservers(String... expected) throws InterruptedException {
        Registry registry = new Registry(
                root.path().toString(),
                KeyFiles.load(root.path().resolve("speed.key").toString()));
        eventually(() -> registry.live("pricing").published().observers().equals(List.of(expected)));
    }

    private static void eventually(BooleanSupplier holds) throws InterruptedException {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!holds.getAsBoolean() && System.nanoTime() < deadline) {
            Thread.sleep(20);
        }
        assertTrue(holds.getAsBoolean());
    }

    @Test
    void anObserverPingsAndReadsAllFiguresWithoutAGrant() {
        assertTrue(looker.ping("pricing").toNanos() > 0);
        assertEquals("pricing", looker.stats("pricing").get("name"));
        assertEquals(Map.of(), looker.stats("pricing").get("refusedSenders"));
    }

    @Test
    void anObserverReadsTheFiguresOfServicesThatItMayNotCall() {
        pricing.register("total", request -> 1, ServiceOptions.DEFAULT.withAllow("pricing"));
        pricing.allow("pricing");
        pricing.call("pricing", "total", Map.of());
        Map<?, ?> services = (Map<?, ?>) looker.stats("pricing").get("services");
        assertEquals(1L, ((Map<?, ?>) services.get("total")).get("numRequests"));
    }

    @TestFactory
    Stream<DynamicTest> anObserverDoesNothingElse() {
        Map<String, Consumer<Node>> acts = Map.of(
                "call", node -> node.call("pricing", "quote", Map.of()),
                "send", node -> node.send("pricing", "text"),
                "services", node -> node.services("pricing"),
                "describe", node -> node.describe("pricing"));
        return acts.entrySet().stream()
                .map(act -> DynamicTest.dynamicTest(act.getKey(), () -> {
                    looker.stats("pricing"); // a right to look that was just used is no right to write
                    assertThrows(
                            AccessDeniedException.class, () -> act.getValue().accept(looker));
                }));
    }

    @Test
    void whoIsNoObserverIsRefused() {
        try (Node web = root.node("web")) {
            assertThrows(AccessDeniedException.class, () -> web.stats("pricing"));
            assertThrows(AccessDeniedException.class, () -> web.ping("pricing"));
        }
    }

    @Test
    void aDenialHoldsForObserversToo() {
        pricing.deny("cli.*");
        assertThrows(AccessDeniedException.class, () -> looker.stats("pricing"));
        assertThrows(AccessDeniedException.class, () -> looker.ping("pricing"));
        pricing.allow("cli.1");
        assertEquals(List.of(), looker.services("pricing"));
    }

    @Test
    void aRunningNodeTakesWhatTheOwnerChanges() throws IOException, InterruptedException {
        write("web\n");
        awaitObservers("web");
        assertThrows(AccessDeniedException.class, () -> looker.stats("pricing"));
        Files.delete(file());
        awaitObservers();
        write("# the operator\ncli.*  # all commands\n");
        awaitObservers("cli.*");
        looker.stats("pricing");
    }

    @Test
    void aFileThatOthersCanWriteLetsNobodyLook() throws IOException, InterruptedException {
        rights("rw-rw-rw-");
        awaitObservers();
        assertThrows(AccessDeniedException.class, () -> looker.stats("pricing"));
        rights("rw-------");
        awaitObservers("cli.*");
    }

    @Test
    void anObserverMayLookAtANodeThatIsStarting() {
        try (Node slow = root.builder("slow").starting().open()) {
            assertEquals("slow", looker.stats("slow").get("name"));
            slow.ready();
        }
    }

    // --- the file ---

    private String refusal() {
        ConfigurationException refused = assertThrows(
                ConfigurationException.class,
                () -> ObserverFile.read(root.path().toString()));
        assertTrue(refused.getMessage().contains(file().toString()), refused.getMessage());
        return refused.getMessage();
    }

    @Test
    void whatSomebodyElseCouldHaveWrittenNamesNobody() throws IOException {
        rights("rw--w----");
        assertTrue(refusal().contains("others can write to it: run `chmod go-w"), refusal());
        rights("rw-------");
        Path second = root.path().resolve("second");
        Files.createLink(second, file());
        assertTrue(refusal().contains("it has a second name"), refusal());
        Files.delete(file());
        Files.createSymbolicLink(file(), second);
        assertTrue(refusal().contains("it is a link"), refusal());
        Files.delete(file());
        Files.createDirectory(file());
        assertTrue(refusal().contains("it is no regular file"), refusal());
        Files.delete(file());
        write("cli.*\n*\n");
        assertTrue(refusal().contains("line 2 is neither a node name nor a family"), refusal());
    }

    @Test
    void aNewRootLetsSpeeddAndCommandsLook() throws IOException {
        Path made = Root.init(place.resolve("new"), place.resolve("new/speed.key"));
        Path written = made.resolve("speed_registry/.observers");
        assertEquals(List.of("cli.*", "speedd"), ObserverFile.read(made.toString()));
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(written)));
        Files.writeString(written, "");
        Root.init(made, made.resolve("speed.key"));
        assertEquals(List.of(), ObserverFile.read(made.toString()));
        assertFalse(Files.isSymbolicLink(written));
        assertTrue(Files.exists(written, LinkOption.NOFOLLOW_LINKS));
    }

    @Test
    void aMessageOfAnObserverIsNotHandedOut() throws InterruptedException {
        assertThrows(AccessDeniedException.class, () -> looker.send("pricing", "text"));
        assertNull(pricing.receive(Duration.ZERO));
    }
}
