package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;
import speed.options.SendOptions;

/** T-2, S-11: what was accepted waits until the program says what takes it. */
class AcceptedMeansHandledTest extends TwoNodes {
    private static final SendOptions ACKNOWLEDGED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);

    @Test
    void messagesThatCameBeforeTheirHandlerAreHandledBeforeThoseThatCameLater() throws InterruptedException {
        BlockingQueue<Object> handled = new LinkedBlockingQueue<>();
        for (long n = 0; n < 180; n++) {
            analytics.send("billing", n, ACKNOWLEDGED);
        }
        billing.onMessage(message -> handled.add(message.payload()));
        for (long n = 180; n < 200; n++) {
            analytics.send("billing", n, ACKNOWLEDGED);
        }
        List<Object> seen = new ArrayList<>();
        for (long n = 0; n < 200; n++) {
            seen.add(handled.poll(60, TimeUnit.SECONDS));
        }
        for (long n = 0; n < 200; n++) {
            assertEquals(n, seen.get((int) n));
        }
    }

    @Test
    void acknowledgedMessagesThatNobodyTookComeAgainAfterARestart() throws InterruptedException {
        for (long n = 0; n < 100; n++) {
            analytics.send("billing", n, ACKNOWLEDGED);
        }
        billing.close();
        billing = root.node("billing", "analytics");
        for (long n = 0; n < 100; n++) {
            assertEquals(n, billing.receive(SOON).payload());
        }
    }

    @Test
    void anEventThatLayInTheLaneBeforeItsSubscriptionIsHandled() throws InterruptedException {
        CountDownLatch entered = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        billing.subscribe("orders.*", message -> {
            entered.countDown();
            awaits(released);
        });
        for (long n = 1; n <= 3; n++) {
            assertEquals(1, analytics.publish("orders.new", n).count());
        }
        awaits(entered);
        billing.close(Duration.ZERO);
        billing = root.node("billing", "analytics");
        BlockingQueue<Object> events = new LinkedBlockingQueue<>();
        for (long until = System.nanoTime() + SOON.toNanos(); received() < 2; Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < until, "they were not read");
        }
        billing.subscribe("orders.*", message -> events.add(message.payload()));
        for (long n = 1; n <= 3; n++) {
            assertEquals(n, events.poll(60, TimeUnit.SECONDS));
        }
        released.countDown();
    }

    private long received() {
        Object received = ((Map<?, ?>) billing.stats().get("counters")).get("messages_received");
        return received == null ? 0 : ((Number) received).longValue();
    }

    private static void awaits(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException hurry) {
            throw new IllegalStateException(hurry);
        }
    }

    @Test
    void whatAReceiveFetchedIsDoneWithTheNextReceiveOfItsThread() throws Exception {
        analytics.send("billing", 1, ACKNOWLEDGED);
        analytics.send("billing", 2, ACKNOWLEDGED);
        Message first = billing.receive(SOON);
        Thread other = new Thread(() -> assertEquals(2L, fetched().payload()), "other");
        other.start();
        other.join();
        assertEquals(1L, first.payload());
        assertEquals(1, first.deliveries());
        assertFalse(first.redelivered());
        assertNull(billing.receive(Duration.ofMillis(1)));
    }

    private Message fetched() {
        try {
            return billing.receive(SOON);
        } catch (InterruptedException hurry) {
            throw new IllegalStateException(hurry);
        }
    }

    @Test
    void nothingCanBeAHandlerOrService() {
        assertThrows(ConfigurationException.class, () -> billing.register("none", null));
        assertThrows(ConfigurationException.class, () -> billing.onMessage(null));
        assertThrows(ConfigurationException.class, () -> billing.subscribe("orders.*", null));
        assertTrue(analytics.services("billing").isEmpty());
    }
}
