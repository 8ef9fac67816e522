package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import speed.errors.NodeLeftException;

/** S-7: what a node answered before it left is read before its callers are told that it left. */
class DepartureTest extends TwoNodes {
    private static final int IN_HAND = 4096;
    private static final int ANSWERS = 20;

    private final CountDownLatch released = new CountDownLatch(1);
    private final CountDownLatch noticed = new CountDownLatch(1);

    /** The answers lie in a lane that stands still (L-19), and no single read takes them all. */
    @Test
    void answersFarBackInTheLaneOfANodeThatLeftReachTheirCallers() throws Exception {
        List<CompletableFuture<Object>> calls = callsThatWait();
        billing.sendAll("analytics", IntStream.range(0, IN_HAND + 100).boxed().toList());
        while (received() < IN_HAND) {
            Thread.yield();
        }
        analytics.onLeave(node -> noticed.countDown());
        released.countDown();
        billing.close();
        assertTrue(noticed.await(60, TimeUnit.SECONDS));
        try (Node other = root.node("other", "analytics")) {
            analytics.ping(other.name());
            analytics.ping(other.name()); // whoever reads has looked at all lanes since the notice
        }
        for (long n = 0; n < IN_HAND + 100; n++) {
            assertEquals(n, analytics.receive(SOON).payload());
        }
        for (CompletableFuture<Object> call : calls) {
            assertEquals(1 << 20, ((byte[]) call.get(60, TimeUnit.SECONDS)).length);
        }
    }

    @Test
    void callersThatGetNoAnswerAreNotifiedWhenTheLaneIsRead() throws InterruptedException {
        billing.register("slow", request -> released.await(60, TimeUnit.SECONDS));
        CompletableFuture<Object> call = analytics.submit("billing", "slow", Map.of(), SOON.multipliedBy(2));
        billing.sendAll("analytics", IntStream.range(0, IN_HAND + 100).boxed().toList());
        billing.close(java.time.Duration.ZERO);
        for (long n = 0; n < IN_HAND + 100; n++) {
            assertEquals(n, analytics.receive(SOON).payload());
        }
        ExecutionException left = assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS));
        assertEquals(NodeLeftException.class, left.getCause().getClass());
        released.countDown();
    }

    private List<CompletableFuture<Object>> callsThatWait() {
        billing.register("blob", request -> released.await(60, TimeUnit.SECONDS) ? new byte[1 << 20] : null);
        List<CompletableFuture<Object>> calls = new ArrayList<>();
        for (int call = 0; call < ANSWERS; call++) {
            calls.add(analytics.submit("billing", "blob", Map.of(), SOON.multipliedBy(2)));
        }
        return calls;
    }

    private long received() {
        Object received = ((Map<?, ?>) analytics.stats().get("counters")).get("messages_received");
        return received == null ? 0 : ((Number) received).longValue();
    }
}
