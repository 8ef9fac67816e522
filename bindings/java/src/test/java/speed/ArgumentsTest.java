package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import speed.errors.ConfigurationException;
import speed.errors.NodeClosedException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.errors.UnserialisableException;
import speed.options.SendOptions;
import speed.options.ServiceOptions;

/** What a program gives by mistake is told as one of SPEED's errors, or does what it seems to mean. */
class ArgumentsTest extends TwoNodes {
    private static final Duration FOR_EVER = Duration.ofSeconds(Long.MAX_VALUE);

    private static Throwable failure(CompletableFuture<Object> future) {
        return assertThrows(ExecutionException.class, () -> future.get(60, TimeUnit.SECONDS))
                .getCause();
    }

    @Test
    void aCallThatCannotBeStartedFailsItsFuture() {
        assertInstanceOf(UnknownNodeException.class, failure(analytics.submit("absent", "one", Map.of())));
        assertInstanceOf(
                UnserialisableException.class,
                failure(analytics.submit("billing", "one", Map.of("thread", Thread.currentThread()))));
        assertInstanceOf(ConfigurationException.class, failure(analytics.submit("billing", "one", null)));
        analytics.close();
        assertInstanceOf(NodeClosedException.class, failure(analytics.submit("billing", "one", Map.of())));
    }

    @Test
    void aTimeThatIsTooLongToCountIsForEver() throws Exception {
        billing.register("one", request -> 1);
        assertEquals(1L, analytics.call("billing", "one", Map.of(), FOR_EVER));
        assertNotNull(analytics.send("billing", "text", SendOptions.DEFAULT.withTimeout(FOR_EVER)));
        assertEquals("text", billing.receive(FOR_EVER).payload());
        assertEquals("billing", analytics.waitFor("billing", FOR_EVER).name());
    }

    @Test
    void aCancellationIsAwaitedForEver() throws Exception {
        Cancellation cancellation = new Cancellation();
        cancellation.onCancel(() -> {});
        CompletableFuture.runAsync(cancellation::raise);
        assertTrue(cancellation.await(FOR_EVER));
    }

    @Test
    void aTimeThatIsOverEndsAtOnce() {
        billing.register("one", request -> 1);
        Duration before = Duration.ofSeconds(Long.MIN_VALUE);
        assertThrows(SpeedException.class, () -> analytics.call("billing", "absent", Map.of(), before));
        assertThrows(UnknownNodeException.class, () -> analytics.waitFor("absent", before));
    }

    @Test
    void aRateThatIsNoneIsRefused() {
        for (double rate : new double[] {Double.NaN, Double.POSITIVE_INFINITY, -1}) {
            assertThrows(ConfigurationException.class, () -> analytics.segment("billing", 64, rate));
        }
    }

    @Test
    void nullIsRefusedAndDoesNothing() {
        Stream.<Executable>of(
                        () -> analytics.call("billing", "one", null),
                        () -> analytics.call("billing", "one", Map.of(), (Duration) null),
                        () -> analytics.call("billing", null, Map.of()),
                        () -> analytics.call(null, "one", Map.of()),
                        () -> analytics.send("billing", 1, null),
                        () -> analytics.send(null, 1, SendOptions.DEFAULT),
                        () -> SendOptions.DEFAULT.withTimeout(null),
                        () -> analytics.waitFor(null, SOON),
                        () -> analytics.waitFor("billing", null),
                        () -> analytics.receive(null),
                        () -> analytics.publish(null, 1, SendOptions.DEFAULT),
                        () -> analytics.publishBatch(null, List.of(1)),
                        () -> analytics.sendBatch(null, List.of(1)),
                        () -> analytics.sendBatch("billing", null),
                        () -> analytics.sendBatch("billing", List.of(1), null),
                        () -> analytics.publishBatch("orders.made", null),
                        () -> analytics.publishBatch("orders.made", List.of(1), null),
                        () -> analytics.publishBatch((List<Map.Entry<String, Object>>) null),
                        () -> analytics.publishBatch(List.of(Map.entry("orders.made", 1)), null),
                        () -> analytics.ping(null),
                        () -> billing.register(null, request -> 1),
                        () -> billing.allow((String) null),
                        () -> billing.subscribe(null, message -> {}),
                        () -> billing.onLost(null),
                        () -> Node.builder(null).root(root.path()).open(),
                        () -> Node.builder("other").root(null).open(),
                        () -> analytics.call("billing", "one", Map.of(), (Class<?>) null),
                        () -> analytics.segment(null, 64, 0),
                        () -> billing.register("one", null),
                        () -> billing.register("one", request -> 1, (List<String>) null),
                        () -> billing.register("one", request -> 1, (ServiceOptions) null),
                        () -> billing.unregister(null),
                        () -> billing.onMessage(null),
                        () -> billing.onBatch(null),
                        () -> billing.onBatch(messages -> null, (String) null),
                        () -> billing.close(null),
                        () -> ServiceOptions.DEFAULT.withAllow((String) null),
                        () -> SendOptions.DEFAULT.withTtl(null),
                        () -> SendOptions.DEFAULT.withTopic(null),
                        () -> SendOptions.DEFAULT.withLabels(null),
                        () -> SendOptions.DEFAULT.withProgress(null),
                        () -> new Cancellation().await(null),
                        () -> new Cancellation().onCancel(null),
                        () -> Value.as(1L, null),
                        () -> Node.builder("other").allow((String) null),
                        () -> Node.builder("other").fabrics((String[]) null),
                        () -> Node.builder("other")
                                .lease(null, SOON)
                                .root(root.path())
                                .open())
                .forEach(mistake -> {
                    String text = assertThrows(SpeedException.class, mistake).getMessage();
                    assertTrue(text.contains("null") || text.contains("empty"), text);
                });
    }
}
