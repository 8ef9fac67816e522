package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.AccessDeniedException;
import speed.errors.ApplicationException;
import speed.errors.CallTimeoutException;
import speed.errors.ConfigurationException;
import speed.errors.Execution;
import speed.errors.InvalidNameException;
import speed.errors.NodeClosedException;
import speed.errors.NodeStartingException;
import speed.errors.UnknownNodeException;
import speed.options.CallOptions;
import speed.options.Retry;
import speed.options.SendOptions;
import speed.options.ServiceDescription;
import speed.options.ServiceOptions;
import speed.tool.BenchRoot;

/** Calls of families (S-40), and calls that are repeated (S-41). */
@Timeout(300)
class FamilyCallTest {
    private static final CallOptions KEYED = CallOptions.DEFAULT.withKey("alice");

    private static final CallOptions PATIENT = CallOptions.DEFAULT.withRetry(
            Retry.DEFAULT.withAttempts(1000).withBackoff(Duration.ofMillis(10)).withBudget(0));
    private static final CallOptions HEDGED = CallOptions.DEFAULT.withRetry(
            Retry.DEFAULT.withIdempotence().withHedge(Duration.ofMillis(50)).withBudget(0));

    private final Map<String, Node> members = new HashMap<>();
    private BenchRoot root;
    private Node shop;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        shop = root.node("shop");
    }

    @AfterEach
    void close() throws IOException {
        shop.close();
        members.values().forEach(Node::close);
        root.close();
    }

    /** A node of the family, whose service tells who answered. */
    private Node member(int number) {
        String name = "pricing." + number;
        Node made = root.builder(name, "shop").starting().open();
        members.put(name, made);
        made.register("quote", request -> name);
        made.ready();
        return made;
    }

    private Node empty(int number, String... allow) {
        String name = "pricing." + number;
        members.put(name, root.node(name, allow));
        return members.get(name);
    }

    private Object quote() {
        return quote(CallOptions.DEFAULT);
    }

    private Object quote(CallOptions options) {
        return shop.call("pricing.*", "quote", Map.of(), options);
    }

    @Test
    void callsGoToOneMemberAfterTheOther() {
        for (int number = 0; number < 3; number++) {
            member(number);
        }
        Map<Object, Integer> answers = new HashMap<>();
        for (int call = 0; call < 9; call++) {
            answers.merge(quote(), 1, Integer::sum);
        }
        assertEquals(Map.of("pricing.0", 3, "pricing.1", 3, "pricing.2", 3), answers);
    }

    @Test
    void whatHasOneKeyGoesToOneMemberWhileItIsThere() throws Exception {
        for (int number = 0; number < 3; number++) {
            member(number);
        }
        Object first = quote(KEYED);
        for (int call = 0; call < 5; call++) {
            assertEquals(first, quote(KEYED));
        }
        assertEquals(first, shop.submit("pricing.*", "quote", Map.of(), KEYED).get(60, TimeUnit.SECONDS));
        members.remove(first).close();
        assertNotEquals(first, quote(KEYED));
    }

    @Test
    void whoHasFewestCallsUnderWayIsCalled() throws Exception {
        CountDownLatch gate = new CountDownLatch(1);
        empty(0, "shop").register("quote", request -> {
            gate.await(60, TimeUnit.SECONDS);
            return "pricing.0";
        });
        member(1);
        CompletableFuture<Object> one = shop.submit("pricing.*", "quote", Map.of());
        CompletableFuture<Object> other = shop.submit("pricing.*", "quote", Map.of());
        CompletableFuture.anyOf(one, other).get(60, TimeUnit.SECONDS);
        for (int call = 0; call < 5; call++) {
            assertEquals("pricing.1", quote());
        }
        gate.countDown();
        CompletableFuture.allOf(one, other).get(60, TimeUnit.SECONDS);
    }

    @Test
    void aMemberThatLacksTheServiceOrTheGrantIsPassedBy() throws Exception {
        empty(0, "shop");
        empty(1).register("quote", request -> "never");
        member(2);
        for (int call = 0; call < 4; call++) {
            assertEquals("pricing.2", quote());
            assertEquals(
                    "pricing.2", shop.submit("pricing.*", "quote", Map.of()).get(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void whatAServiceAnswersIsFinalAndNamesTheMember() {
        AtomicInteger calls = new AtomicInteger();
        empty(0, "shop").register("fail", request -> {
            calls.incrementAndGet();
            throw new ApplicationException("SOLD_OUT", "none left", Map.of());
        });
        CallOptions patient = CallOptions.DEFAULT.withRetry(Retry.DEFAULT.withIdempotence());
        ApplicationException failed =
                assertThrows(ApplicationException.class, () -> shop.call("pricing.*", "fail", Map.of(), patient));
        assertEquals("pricing.0", failed.node());
        assertEquals(1, calls.get());
    }

    @Test
    void oneThatIsNotThereOrAllowsNobodySaysSo() {
        assertThrows(UnknownNodeException.class, this::quote);
        empty(0);
        CallOptions patient = CallOptions.DEFAULT.withRetry(Retry.DEFAULT
                .withAttempts(1000)
                .withBackoff(Duration.ofMillis(10))
                .withBudget(0));
        assertThrows(AccessDeniedException.class, () -> quote(patient)); // one that joins is seen after a moment
        assertThrows(InvalidNameException.class, () -> shop.call("pri cing.*", "quote", Map.of()));
        assertThrows(ConfigurationException.class, () -> shop.call("pricing.0", "quote", Map.of(), KEYED));
    }

    /** One that does not serve yet. */
    private Node starting(int number) {
        Node made = root.builder("pricing." + number, "shop").starting().open();
        members.put(made.name(), made);
        return made;
    }

    @Test
    void oneWhoseMembersAreOnlyStartingIsWaitedFor() throws Exception {
        Node member = starting(0);
        member.register("quote", request -> "at last");
        CompletableFuture<Object> call = CompletableFuture.supplyAsync(this::quote);
        CompletableFuture<Object> other = CompletableFuture.supplyAsync(
                () -> shop.submit("pricing.*", "quote", Map.of()).join());
        CompletableFuture<Void> sent = CompletableFuture.runAsync(() -> shop.send("pricing.*", "hello"));
        assertFalse(call.isDone());
        assertFalse(other.isDone());
        member.ready();
        assertEquals("at last", call.get(60, TimeUnit.SECONDS));
        assertEquals("at last", other.get(60, TimeUnit.SECONDS));
        sent.get(60, TimeUnit.SECONDS);
    }

    @Test
    void oneWhoseMembersStartForTooLongSaysSo() {
        starting(0);
        CallOptions brief = CallOptions.DEFAULT.withTimeout(Duration.ofMillis(100));
        NodeStartingException late = assertThrows(NodeStartingException.class, () -> quote(brief));
        assertEquals(Execution.NOT_BEGUN, late.execution());
    }

    @Test
    void aMemberThatServesIsAskedBeforeOneThatIsStarting() {
        starting(0);
        member(1);
        for (int call = 0; call < 4; call++) {
            assertEquals("pricing.1", quote());
        }
    }

    @Test
    void aMemberThatIsOnlyStartingIsNotAskedBesideASlowOne() throws Exception {
        starting(0);
        CountDownLatch gate = new CountDownLatch(1);
        empty(1, "shop")
                .register(
                        "quote",
                        request -> gate.await(60, TimeUnit.SECONDS) ? "slow" : "late",
                        ServiceOptions.DEFAULT.withIdempotence());
        CompletableFuture<Object> call = CompletableFuture.supplyAsync(() -> quote(HEDGED));
        assertThrows(TimeoutException.class, () -> call.get(200, TimeUnit.MILLISECONDS));
        gate.countDown();
        assertEquals("slow", call.get(60, TimeUnit.SECONDS));
    }

    @Test
    void messagesAndQuestionsGoToAMember() throws Exception {
        BlockingQueue<Object> got = new LinkedBlockingQueue<>();
        member(0).onMessage(message -> got.add(message.payload()));
        shop.send("pricing.*", "one", SendOptions.DEFAULT.withAcknowledgement().withTimeout(Duration.ofSeconds(60)));
        shop.sendAll("pricing.*", List.of("two", "three"));
        for (String payload : List.of("one", "two", "three")) {
            assertEquals(payload, got.poll(60, TimeUnit.SECONDS));
        }
        assertEquals(List.of("quote"), shop.services("pricing.*"));
        assertEquals(1, shop.describe("pricing.*").size());
        assertEquals("pricing.0", shop.info("pricing.*").get("name"));
        shop.ping("pricing.*");
        assertThrows(ConfigurationException.class, () -> shop.segment("pricing.*", 100, 0));
    }

    private void described(int number, String version) {
        ServiceDescription description = ServiceDescription.of("quotes").withVersion(version);
        empty(number, "shop")
                .register(
                        "quote",
                        request -> 1,
                        ServiceOptions.DEFAULT.withIdempotence().withDescription(description));
    }

    @Test
    void membersThatDifferAreRefusedOnDemand() {
        described(0, "1");
        assertEquals("1", shop.describeAlike("pricing.*").get(0).get("version"));
        described(1, "1");
        described(2, "2");
        shop.waitFor("pricing.2", Duration.ofSeconds(60));
        eventually(() -> refusalOfUnlike()
                .equals("the nodes of 'pricing.*' are not alike: 'pricing.0' and 'pricing.2' differ: 'quote' has"
                        + " version '1' and '2'"));
        assertEquals("1", shop.describe("pricing.*").get(0).get("version"));
        assertEquals(shop.describe("pricing.2"), shop.describeAlike("pricing.2")); // a node alone is as it is
    }

    /** Empty as long as the last one that joined is not seen. */
    private String refusalOfUnlike() {
        try {
            shop.describeAlike("pricing.*");
            return "";
        } catch (ConfigurationException unlike) {
            return unlike.getMessage();
        }
    }

    @Test
    void aCallOfNobodyIsRepeatedUntilSomebodyIsThere() throws Exception {
        CompletableFuture<Object> call = CompletableFuture.supplyAsync(() -> quote(PATIENT));
        member(0);
        assertEquals("pricing.0", call.get(60, TimeUnit.SECONDS));
    }

    @Test
    void aSubmittedCallIsRepeatedUntilSomebodyIsThere() throws Exception {
        CompletableFuture<Object> call = shop.submit("pricing.*", "quote", Map.of(), PATIENT);
        member(0);
        assertEquals("pricing.0", call.get(60, TimeUnit.SECONDS));
    }

    @Test
    void aSubmittedCallEndsWithItsLastErrorOnceItIsWithdrawnOrItsNodeCloses() throws Exception {
        CallOptions slow = CallOptions.DEFAULT.withRetry(Retry.DEFAULT
                .withAttempts(1000)
                .withBackoff(Duration.ofMillis(500))
                .withBudget(0));
        CompletableFuture<Object> withdrawn = shop.submit("pricing.*", "quote", Map.of(), slow);
        assertFalse(withdrawn.cancel(true));
        assertInstanceOf(UnknownNodeException.class, failureOf(withdrawn));
        Retry seldom = slow.retry().withBackoff(Duration.ofSeconds(5));
        CompletableFuture<Object> pausing = shop.submit("pricing.*", "quote", Map.of(), slow.withRetry(seldom));
        shop.close();
        assertInstanceOf(NodeClosedException.class, failureOf(pausing));
    }

    @Test
    void whatAServiceAnswersIsFinalForASubmittedCallToo() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        empty(0, "shop").register("quote", request -> {
            calls.incrementAndGet();
            return Response.error("OUT_OF_STOCK", "none left", Map.of());
        });
        assertInstanceOf(ApplicationException.class, failureOf(shop.submit("pricing.*", "quote", Map.of(), PATIENT)));
        assertEquals(1, calls.get());
    }

    private static Throwable failureOf(CompletableFuture<Object> call) {
        return assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS))
                .getCause();
    }

    // --- a second member beside the first ---

    /** A member whose service waits until its call is withdrawn, and counts that. */
    private AtomicInteger slowMember(int number) {
        AtomicInteger withdrawn = new AtomicInteger();
        Node made = root.builder("pricing." + number, "shop").starting().open();
        members.put(made.name(), made);
        made.register(
                "quote",
                request -> {
                    if (request.cancellation().await(Duration.ofSeconds(30))) {
                        withdrawn.incrementAndGet();
                    }
                    return "slow";
                },
                ServiceOptions.DEFAULT.withIdempotence());
        made.ready();
        return withdrawn;
    }

    @Test
    void aSecondMemberIsAskedWhereTheFirstIsSlowAndTheFirstIsWithdrawn() throws Exception {
        AtomicInteger withdrawn = slowMember(0);
        member(1);
        for (int call = 0; call < 3; call++) {
            assertEquals("pricing.1", quote(HEDGED));
            assertEquals(
                    "pricing.1",
                    shop.submit("pricing.*", "quote", Map.of(), HEDGED).get(60, TimeUnit.SECONDS));
        }
        eventually(() -> withdrawn.get() > 0);
    }

    @Test
    void aHedgedCallOfAFamilyOfOneWaitsForIt() throws Exception {
        empty(0, "shop").register("quote", request -> {
            Thread.sleep(200);
            return "alone";
        });
        assertEquals("alone", quote(HEDGED));
        assertEquals(
                "alone", shop.submit("pricing.*", "quote", Map.of(), HEDGED).get(60, TimeUnit.SECONDS));
    }

    @Test
    void callersInAServiceHoldNoPlaceWhileTheyWaitForTwo() throws Exception {
        slowMember(0);
        Node middle = root.builder("middle", "shop").workers(1).open();
        members.put("middle", middle);
        member(1);
        members.get("pricing.0").allow("middle");
        members.get("pricing.1").allow("middle");
        middle.register("ask", request -> middle.call("pricing.*", "quote", Map.of(), HEDGED));
        assertEquals("pricing.1", shop.call("middle", "ask", Map.of()));
    }

    @Test
    void anErrorOfTheFirstToAnswerCounts() {
        slowMember(0);
        empty(1, "shop").register("quote", request -> Response.error("OUT_OF_STOCK", "none left", Map.of()));
        assertThrows(ApplicationException.class, () -> quote(HEDGED));
    }

    @Test
    void aHedgeSpendsTheBudget() {
        slowMember(0);
        member(1);
        Retry poor = HEDGED.retry().withBudget(1e-6).withHedge(Duration.ZERO);
        CallOptions options = HEDGED.withRetry(poor).withTimeout(Duration.ofMillis(500));
        int slow = 0;
        for (int call = 0; call < 14; call++) {
            try {
                quote(options);
            } catch (CallTimeoutException alone) {
                slow++;
            }
        }
        assertTrue(slow > 0); // once the budget is spent, the slow one is asked alone
    }

    @Test
    void aHedgeIsForFamiliesAndForWhatMayRunTwice() {
        member(0);
        assertThrows(ConfigurationException.class, () -> Retry.DEFAULT.withHedge(Duration.ofMillis(1)));
        assertThrows(ConfigurationException.class, () -> HEDGED.retry().withHedge(Duration.ofMillis(-1)));
        assertThrows(ConfigurationException.class, () -> shop.call("pricing.0", "quote", Map.of(), HEDGED));
        assertInstanceOf(ConfigurationException.class, failureOf(shop.submit("pricing.0", "quote", Map.of(), HEDGED)));
    }

    private static void eventually(BooleanSupplier holds) {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!holds.getAsBoolean()) {
            assertTrue(System.nanoTime() < deadline, "it never held");
            Thread.yield();
        }
    }

    @Test
    void soManyAttemptsAreMadeAndTheLastErrorIsThrown() {
        Retry thrice = Retry.DEFAULT.withBackoff(Duration.ofMillis(1));
        CallOptions options = CallOptions.DEFAULT.withRetry(thrice);
        assertThrows(UnknownNodeException.class, () -> shop.call("gone", "x", Map.of(), options));
        CallOptions brief = options.withRetry(thrice.withAttempts(1_000_000)).withTimeout(Duration.ofMillis(50));
        assertThrows(UnknownNodeException.class, () -> shop.call("gone", "x", Map.of(), brief));
        assertThrows(ConfigurationException.class, () -> thrice.withAttempts(0));
        assertThrows(ConfigurationException.class, () -> thrice.withBackoff(Duration.ofMillis(-1)));
        assertThrows(ConfigurationException.class, () -> thrice.withBudget(1.5));
        assertThrows(ConfigurationException.class, () -> thrice.withBudget(Double.NaN));
    }
}
