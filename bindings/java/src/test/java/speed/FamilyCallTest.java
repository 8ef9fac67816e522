package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.AccessDeniedException;
import speed.errors.ApplicationException;
import speed.errors.ConfigurationException;
import speed.errors.InvalidNameException;
import speed.errors.UnknownNodeException;
import speed.options.CallOptions;
import speed.options.Retry;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** Calls of families (S-40), and calls that are repeated (S-41). */
@Timeout(120)
class FamilyCallTest {
    private static final CallOptions KEYED = CallOptions.DEFAULT.withKey("alice");

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
        assertEquals(first, shop.submit("pricing.*", "quote", Map.of(), KEYED).get(20, TimeUnit.SECONDS));
        members.remove(first).close();
        assertNotEquals(first, quote(KEYED));
    }

    @Test
    void whoHasFewestCallsUnderWayIsCalled() throws Exception {
        CountDownLatch gate = new CountDownLatch(1);
        empty(0, "shop").register("quote", request -> {
            gate.await(20, TimeUnit.SECONDS);
            return "pricing.0";
        });
        member(1);
        CompletableFuture<Object> one = shop.submit("pricing.*", "quote", Map.of());
        CompletableFuture<Object> other = shop.submit("pricing.*", "quote", Map.of());
        CompletableFuture.anyOf(one, other).get(20, TimeUnit.SECONDS);
        for (int call = 0; call < 5; call++) {
            assertEquals("pricing.1", quote());
        }
        gate.countDown();
        CompletableFuture.allOf(one, other).get(20, TimeUnit.SECONDS);
    }

    @Test
    void aMemberThatLacksTheServiceOrTheGrantIsPassedBy() throws Exception {
        empty(0, "shop");
        empty(1).register("quote", request -> "never");
        member(2);
        for (int call = 0; call < 4; call++) {
            assertEquals("pricing.2", quote());
            assertEquals(
                    "pricing.2", shop.submit("pricing.*", "quote", Map.of()).get(20, TimeUnit.SECONDS));
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

    @Test
    void messagesAndQuestionsGoToAMember() throws Exception {
        BlockingQueue<Object> got = new LinkedBlockingQueue<>();
        member(0).onMessage(message -> got.add(message.payload()));
        shop.send("pricing.*", "one", SendOptions.DEFAULT.withAcknowledgement());
        shop.sendAll("pricing.*", List.of("two", "three"));
        for (String payload : List.of("one", "two", "three")) {
            assertEquals(payload, got.poll(20, TimeUnit.SECONDS));
        }
        assertEquals(List.of("quote"), shop.services("pricing.*"));
        assertEquals(1, shop.describe("pricing.*").size());
        assertEquals("pricing.0", shop.info("pricing.*").get("name"));
        shop.ping("pricing.*");
        assertThrows(ConfigurationException.class, () -> shop.segment("pricing.*", 100, 0));
    }

    @Test
    void aCallOfNobodyIsRepeatedUntilSomebodyIsThere() throws Exception {
        CallOptions patient = CallOptions.DEFAULT.withRetry(Retry.DEFAULT
                .withAttempts(1000)
                .withBackoff(Duration.ofMillis(10))
                .withBudget(0));
        CompletableFuture<Object> call = CompletableFuture.supplyAsync(() -> quote(patient));
        member(0);
        assertEquals("pricing.0", call.get(60, TimeUnit.SECONDS));
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
