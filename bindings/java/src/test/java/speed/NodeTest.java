package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.AccessDeniedException;
import speed.errors.CallTimeoutException;
import speed.errors.ConfigurationException;
import speed.errors.DurabilityException;
import speed.errors.ExecutionFailedException;
import speed.errors.InboxFullException;
import speed.errors.InvalidArgumentsException;
import speed.errors.KeyFileException;
import speed.errors.NameTakenException;
import speed.errors.NodeClosedException;
import speed.errors.NodeLeftException;
import speed.errors.PayloadTooLargeException;
import speed.errors.ServiceExistsException;
import speed.errors.ServiceNotFoundException;
import speed.errors.UnknownNodeException;
import speed.errors.UnserialisableException;
import speed.tool.BenchRoot;

/** Two nodes of one root, with real files. */
@Timeout(60)
class NodeTest {
    private static final Duration SOON = Duration.ofSeconds(20);

    private BenchRoot root;
    private Node billing;
    private Node analytics;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        billing = root.node("billing", "analytics");
        analytics = root.node("analytics", "billing");
    }

    @AfterEach
    void close() throws IOException {
        analytics.close();
        billing.close();
        root.close();
    }

    // --- calls ---

    @Test
    void aCallReturnsWhatTheServiceReturns() {
        billing.register("add", request -> request.get("a", Long.class) + request.get("b", Long.class));
        assertEquals(5L, analytics.call("billing", "add", Map.of("a", 2, "b", 3)));
    }

    @Test
    void eachFailureOfACallIsAnExceptionOfItsOwn() {
        billing.register("fail", request -> {
            throw new IllegalStateException("no luck");
        });
        billing.register("odd", request -> new Object());
        billing.register("forbidden", request -> 1, List.of("nobody"));
        billing.register("typed", request -> request.get("x", Long.class));
        assertThrows(ServiceNotFoundException.class, () -> call("missing"));
        assertThrows(AccessDeniedException.class, () -> call("forbidden"));
        assertThrows(InvalidArgumentsException.class, () -> call("typed"));
        assertThrows(ExecutionFailedException.class, () -> call("odd"));
        ExecutionFailedException failed = assertThrows(ExecutionFailedException.class, () -> call("fail"));
        assertEquals("IllegalStateException", failed.details().get("exception"));
        assertThrows(UnknownNodeException.class, () -> analytics.call("nobody", "x", Map.of()));
        assertThrows(UnserialisableException.class, () -> analytics.call("billing", "x", Map.of("x", new Object())));
    }

    private Object call(String service) {
        return analytics.call("billing", service, Map.of());
    }

    @Test
    void aSlowServiceEndsWithTimeoutAndItsPhase() {
        CountDownLatch released = new CountDownLatch(1);
        billing.register("slow", request -> released.await(20, TimeUnit.SECONDS));
        CallTimeoutException late = assertThrows(CallTimeoutException.class,
                () -> analytics.call("billing", "slow", Map.of(), Duration.ofMillis(200)));
        assertEquals("running", late.details().get("phase"));
        released.countDown();
    }

    @Test
    void aSlowServiceBlocksNoOther() {
        CountDownLatch released = new CountDownLatch(1);
        billing.register("slow", request -> released.await(20, TimeUnit.SECONDS));
        billing.register("quick", request -> "done");
        CompletableFuture<Object> slow = analytics.submit("billing", "slow", Map.of());
        assertEquals("done", call("quick"));
        released.countDown();
        assertEquals(true, slow.join());
    }

    @Test
    void requestsOfOneSenderStartInOrder() {
        List<Object> seen = new ArrayList<>();
        billing.register("note", request -> {
            synchronized (seen) {
                return seen.add(request.arguments().get("n"));
            }
        });
        List<CompletableFuture<Object>> calls = new ArrayList<>();
        List<Object> sent = new ArrayList<>();
        for (long n = 0; n < 2000; n++) {
            sent.add(n);
            calls.add(analytics.submit("billing", "note", Map.of("n", n)));
        }
        calls.forEach(CompletableFuture::join);
        assertEquals(sent, seen);
    }

    @Test
    void aServiceMayCallBackInTheMiddle() {
        analytics.register("half", request -> request.get("x", Long.class) / 2);
        billing.register("viaCaller", request ->
                billing.call(request.caller(), "half", Map.of("x", request.arguments().get("x"))));
        assertEquals(21L, analytics.call("billing", "viaCaller", Map.of("x", 42)));
    }

    @Test
    void theTraceContextIsCarriedOn() {
        String trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        analytics.register("trace", Request::traceparent);
        billing.register("viaCaller", request -> billing.call("analytics", "trace", Map.of()));
        assertEquals(trace, analytics.call("billing", "viaCaller", Map.of(), SOON, trace));
        assertNull(call("viaCaller"));
    }

    @Test
    void aLargePayloadArrivesWhole() {
        billing.register("echo", request -> request.arguments().get("data"));
        byte[] data = new byte[20 << 20];
        for (int index = 0; index < data.length; index++) {
            data[index] = (byte) (index * 31);
        }
        assertArrayEquals(data, (byte[]) analytics.call("billing", "echo", Map.of("data", data)));
        assertThrows(PayloadTooLargeException.class,
                () -> analytics.call("billing", "echo", Map.of("data", new byte[65 << 20])));
    }

    @Test
    void whatDependsOnAFutureMayCallAgain() throws ExecutionException, InterruptedException {
        billing.register("echo", request -> request.arguments().get("data"));
        Object twice = analytics.submit("billing", "echo", Map.of("data", 1))
                .thenApply(one -> analytics.call("billing", "echo", Map.of("data", one))).get();
        assertEquals(1L, twice);
    }

    @Test
    void pingInfoStatsAndServicesTellOfANode() {
        billing.register("open", request -> 1);
        billing.register("closed", request -> 1, List.of("nobody"));
        assertEquals(List.of("open"), analytics.services("billing"));
        assertTrue(analytics.ping("billing").toNanos() > 0);
        assertEquals("java", analytics.info("billing").get("language"));
        call("open");
        Map<?, ?> services = (Map<?, ?>) analytics.stats("billing").get("services");
        assertEquals(1L, ((Map<?, ?>) services.get("open")).get("numRequests"));
    }

    // --- access ---

    @Test
    void withoutAGrantNothingTouchesTheDisk() throws IOException {
        try (Node stranger = root.node("stranger")) {
            assertThrows(AccessDeniedException.class, () -> stranger.send("billing", "hello"));
            assertFalse(Files.exists(root.path().resolve("billing/inbox/stranger")));
        }
    }

    @Test
    void aDenialTakesEffectAtOnce() {
        billing.register("one", request -> 1);
        call("one");
        billing.deny("analytics");
        assertThrows(AccessDeniedException.class, () -> call("one"));
    }

    @Test
    void aNodeAnswersWhoItDoesNotAllowToWrite() throws IOException {
        try (Node server = root.node("server", "caller"); Node caller = root.node("caller")) {
            server.register("one", request -> 1);
            assertEquals(1L, caller.call("server", "one", Map.of()));
            assertThrows(AccessDeniedException.class, () -> server.send("caller", "unasked"));
        }
    }

    // --- messages and events ---

    @Test
    void messagesArriveInOrderWithTheirMetadata() throws InterruptedException {
        for (int n = 0; n < 100; n++) {
            analytics.send("billing", Map.of("n", n), SendOptions.DEFAULT.withTopic("numbers"));
        }
        for (long n = 0; n < 100; n++) {
            Message message = billing.receive(SOON);
            assertEquals(Map.of("n", n), message.payload());
            assertEquals("numbers", message.topic());
            assertEquals("analytics", message.source());
            assertFalse(message.redelivered());
        }
        assertNull(billing.receive(Duration.ofMillis(1)));
    }

    @Test
    void anAcknowledgementComesAfterTheHandlerReturned() {
        List<Object> handled = new ArrayList<>();
        billing.onMessage(message -> handled.add(message.payload()));
        analytics.send("billing", "one", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
        assertEquals(List.of("one"), handled);
    }

    @Test
    void aFailingHandlerIsReportedToWhoAskedForAnAcknowledgement() {
        billing.onMessage(message -> {
            throw new IllegalStateException("no luck");
        });
        assertThrows(ExecutionFailedException.class, () -> analytics.send(
                "billing", "one", SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON)));
    }

    @Test
    void anEventReachesThoseThatSubscribed() throws InterruptedException {
        BlockingQueue<Message> events = new LinkedBlockingQueue<>();
        billing.subscribe("orders.*", events::add);
        assertEquals(1, analytics.publish("orders.created", List.of(1, 2)));
        assertEquals(0, analytics.publish("other", 1));
        assertEquals(List.of(1L, 2L), events.poll(20, TimeUnit.SECONDS).payload());
    }

    @Test
    void aFullInboxIsReportedAfterTheTimeout() throws IOException {
        try (Node sender = Node.builder("sender").root(root.path()).key(root.path().resolve("speed.key"))
                .laneBytes(2000).open()) {
            billing.allow("sender");
            SendOptions brief = SendOptions.DEFAULT.withTimeout(Duration.ofMillis(50));
            assertThrows(InboxFullException.class, () -> {
                for (int n = 0; n < 10; n++) {
                    sender.send("billing", new byte[500], brief);
                }
            });
        }
    }

    // --- other nodes ---

    @Test
    void joinsAndLeavesAreTold() throws IOException, InterruptedException {
        BlockingQueue<String> news = new LinkedBlockingQueue<>();
        billing.onJoin(node -> news.add("+" + node.name()));
        billing.onLeave(node -> news.add("-" + node.name()));
        root.node("guest").close();
        assertEquals("+guest", news.poll(20, TimeUnit.SECONDS));
        assertEquals("-guest", news.poll(20, TimeUnit.SECONDS));
    }

    @Test
    void fabricsFilterListings() {
        try (Node labelled = Node.builder("labelled").root(root.path()).key(root.path().resolve("speed.key"))
                .fabrics("Finance").open()) {
            assertEquals(List.of("labelled"), billing.nodes("Finance").stream().map(NodeInfo::name).toList());
            assertEquals(3, labelled.nodes().size());
        }
    }

    @Test
    void waitingForANodeThatDoesNotComeEnds() {
        assertThrows(UnknownNodeException.class, () -> billing.waitFor("nobody", Duration.ofMillis(20)));
    }

    @Test
    void aCallToANodeThatLeavesEnds() {
        CountDownLatch started = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        billing.register("slow", request -> {
            started.countDown();
            return released.await(20, TimeUnit.SECONDS);
        });
        CompletableFuture<Object> call = analytics.submit("billing", "slow", Map.of());
        assertTrue(waited(started));
        billing.close(Duration.ZERO);
        released.countDown();
        ExecutionException error = assertThrows(ExecutionException.class, () -> call.get(20, TimeUnit.SECONDS));
        assertTrue(error.getCause() instanceof NodeLeftException, error.getCause().toString());
    }

    private static boolean waited(CountDownLatch latch) {
        try {
            return latch.await(20, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            return false;
        }
    }

    // --- life ---

    @Test
    void aLiveNameIsTakenAndAClosedOneIsFree() {
        assertThrows(NameTakenException.class, () -> root.node("billing"));
        billing.close();
        billing = root.node("billing");
        assertEquals(2, billing.generation());
    }

    @Test
    void aClosedNodeSaysSo() {
        billing.close();
        billing.close();
        assertTrue(billing.isClosed());
        assertThrows(NodeClosedException.class, () -> billing.send("analytics", 1));
        assertThrows(NodeClosedException.class, () -> billing.nodes());
    }

    @Test
    void aClosedNodeLeavesNoThread() {
        billing.close();
        analytics.close();
        long deadline = System.nanoTime() + SOON.toNanos();
        while (threads() > 0 && System.nanoTime() < deadline) {
            Thread.onSpinWait();
        }
        assertEquals(0, threads());
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("speed-")).count();
    }

    @Test
    void impossibleSettingsAreRefused() throws IOException {
        assertThrows(ServiceExistsException.class, () -> {
            billing.register("one", request -> 1);
            billing.register("one", request -> 2);
        });
        NodeBuilder other = Node.builder("other").root(root.path()).key(root.path().resolve("speed.key"));
        assertThrows(ConfigurationException.class, () -> other.workers(0).open());
        assertThrows(ConfigurationException.class,
                () -> other.workers(1).lease(Duration.ofSeconds(1), Duration.ofSeconds(1)).open());
        Files.setPosixFilePermissions(root.path().resolve("speed.key"), PosixFilePermissions.fromString("rw-r--r--"));
        assertThrows(KeyFileException.class, () -> root.node("third"));
    }

    @Test
    void diskDurabilityIsRefusedInMemoryAndGivenOnADisk() throws IOException {
        boolean inMemory = root.path().startsWith("/dev/shm");
        if (inMemory) {
            assertThrows(DurabilityException.class, () -> Node.builder("d").root(root.path())
                    .key(root.path().resolve("speed.key")).durable().open());
        }
        try (BenchRoot disk = new BenchRoot("target");
                Node receiver = disk.node("receiver", "sender");
                Node sender = Node.builder("sender").root(disk.path()).key(disk.path().resolve("speed.key"))
                        .durable().open()) {
            sender.send("receiver", 1, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON));
            assertEquals(2, receiver.nodes().size());
        }
    }

    @Test
    void nodesThatPollTalkWithNodesThatRing() {
        try (Node poller = Node.builder("poller").root(root.path()).key(root.path().resolve("speed.key"))
                .allow("analytics").polling().open()) {
            analytics.allow("poller");
            poller.register("one", request -> 1);
            analytics.register("two", request -> 2);
            assertEquals(1L, analytics.call("poller", "one", Map.of()));
            assertEquals(2L, poller.call("analytics", "two", Map.of()));
        }
    }
}
