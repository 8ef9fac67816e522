package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidNameException;
import speed.options.SendOptions;

/** Messages and events many at a time (L-15). */
class MessageBatchTest extends TwoNodes {
    private static final SendOptions ACKNOWLEDGED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);

    /** Keeps what it took, and tells when there is enough. */
    private static final class Collected implements BatchHandler {
        final List<List<Object>> batches = new ArrayList<>();
        private final CountDownLatch left;

        Collected(int enough) {
            left = new CountDownLatch(enough);
        }

        @Override
        public synchronized Map<Integer, String> handle(List<Message> messages) {
            batches.add(messages.stream().map(Message::payload).toList());
            messages.forEach(message -> left.countDown());
            return Map.of();
        }

        synchronized List<Object> payloads() {
            return batches.stream().flatMap(List::stream).toList();
        }

        void await() throws InterruptedException {
            assertTrue(left.await(SOON.toSeconds(), TimeUnit.SECONDS));
        }
    }

    @Test
    void messagesAndEventsComeInBatchesAndInTheOrderOfTheirSender() throws InterruptedException {
        Collected collected = new Collected(1100);
        CountDownLatch sent = new CountDownLatch(1);
        billing.onBatch(
                messages -> {
                    assertTrue(sent.await(SOON.toSeconds(), TimeUnit.SECONDS));
                    return collected.handle(messages);
                },
                "orders.*");
        analytics.sendAll("billing", LongStream.range(0, 1000).boxed().toList());
        for (long number = 1000; number < 1100; number++) {
            assertEquals(1, analytics.publish("orders.new", number).count());
        }
        awaitReceived(1100);
        sent.countDown();
        collected.await();
        assertEquals(LongStream.range(0, 1100).boxed().toList(), collected.payloads());
        assertTrue(collected.batches.size() < 1100);
    }

    private void awaitReceived(long messages) {
        long until = System.nanoTime() + SOON.toNanos();
        while (!Long.valueOf(messages).equals(((Map<?, ?>) billing.stats().get("counters")).get("messages_received"))) {
            assertTrue(System.nanoTime() < until, "they did not come");
        }
    }

    @Test
    void aLoneMessageIsABatchAndAcknowledgedAfterTheHandlerReturned() {
        Collected collected = new Collected(1);
        billing.onBatch(collected);
        analytics.send("billing", "one", ACKNOWLEDGED);
        assertEquals(List.of(List.of("one")), collected.batches);
    }

    @Test
    void whatWaitedForReceiveComesFirst() throws InterruptedException {
        analytics.send("billing", 1, ACKNOWLEDGED);
        Collected collected = new Collected(2);
        billing.onBatch(collected);
        analytics.send("billing", 2, ACKNOWLEDGED);
        collected.await();
        assertEquals(List.of(1L, 2L), collected.payloads());
    }

    @Test
    void aBatchWhoseHandlerThrowsComesAgainUntilItIsTaken() {
        List<Object> seen = new ArrayList<>();
        billing.onBatch(messages -> {
            seen.add(messages.get(0).payload());
            if (seen.size() < 3) {
                throw new java.io.IOException("no room");
            }
            return Map.of();
        });
        analytics.send("billing", "kept", ACKNOWLEDGED);
        assertEquals(List.of("kept", "kept", "kept"), seen);
    }

    @Test
    void oneMessageThatCannotBeHandledIsGivenUpAlone() throws Exception {
        billing.close();
        billing = root.builder("billing", "analytics").maxDeliveries(3).open();
        for (Object payload : List.of("a", "poison", "b")) {
            analytics.send("billing", payload, ACKNOWLEDGED);
        }
        List<List<Object>> seen = Collections.synchronizedList(new ArrayList<>());
        List<Object> handled = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch last = new CountDownLatch(1);
        billing.onBatch(messages -> {
            List<Object> payloads = messages.stream().map(Message::payload).toList();
            seen.add(payloads);
            if (payloads.contains("poison")) {
                throw new IllegalStateException("cannot be handled");
            }
            handled.addAll(payloads);
            if (payloads.contains("last")) {
                last.countDown();
            }
            return Map.of();
        });
        analytics.send("billing", "last");
        assertTrue(last.await(SOON.toSeconds(), TimeUnit.SECONDS));
        assertEquals(3, seen.stream().filter(one -> one.contains("poison")).count());
        assertTrue(seen.contains(List.of("poison")));
        assertEquals(List.of("a", "b", "last"), handled);
    }

    @Test
    void aRefusedPlaceIsReportedToItsSenderAndNoOther() {
        billing.onBatch(messages -> {
            Map<Integer, String> refused = new HashMap<>();
            for (int place = 0; place < messages.size(); place++) {
                if ((long) messages.get(place).payload() % 2 == 1) {
                    refused.put(place, "no odd ones");
                }
            }
            return refused;
        });
        analytics.send("billing", 2, ACKNOWLEDGED);
        ExecutionFailedException refusal =
                assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", 3, ACKNOWLEDGED));
        assertTrue(refusal.getMessage().contains("no odd ones"));
        analytics.send("billing", 4, ACKNOWLEDGED);
    }

    @Test
    void eventsOfOtherTopicsAreNotHandedOver() throws InterruptedException {
        Collected collected = new Collected(1);
        billing.onBatch(collected, "orders.*");
        assertEquals(0, analytics.publish("invoices.new", 1).count());
        assertEquals(1, analytics.publish("orders.new", 2).count());
        collected.await();
        assertEquals(List.of(2L), collected.payloads());
    }

    @Test
    void aBatchHandlerIsTheOnlyOne() {
        billing.onBatch(messages -> Map.of());
        Stream.<Runnable>of(
                        () -> billing.onBatch(messages -> Map.of()),
                        () -> billing.onMessage(message -> {}),
                        () -> billing.subscribe("a", message -> {}))
                .forEach(other -> assertThrows(ConfigurationException.class, other::run));
        analytics.onMessage(message -> {});
        assertThrows(ConfigurationException.class, () -> analytics.onBatch(messages -> Map.of()));
    }

    @Test
    void aPatternThatIsNoneIsRefusedAndTheNodeStaysWithoutAHandler() {
        assertThrows(InvalidNameException.class, () -> billing.onBatch(messages -> Map.of(), "a..b"));
        billing.onBatch(messages -> Map.of(), "a.b");
    }

    @Test
    void whatWasNotTakenWhenTheNodeClosedComesAgainWithTheSameSequence() throws Exception {
        List<Long> sequences = new ArrayList<>();
        CountDownLatch refused = new CountDownLatch(1);
        billing.onBatch(messages -> {
            sequences.add(messages.get(0).sequence());
            refused.countDown();
            throw new java.io.IOException("no room");
        });
        analytics.send("billing", "kept");
        assertTrue(refused.await(SOON.toSeconds(), TimeUnit.SECONDS));
        billing.close();
        Collected again = new Collected(1);
        billing = root.node("billing", "analytics");
        billing.onBatch(messages -> {
            sequences.add(messages.get(0).sequence());
            return again.handle(messages);
        });
        again.await();
        assertEquals(List.of("kept"), again.payloads());
        assertEquals(1, sequences.stream().distinct().count());
    }

    /** S-11: a reason that no encoding carries, and one whose cut splits a pair. */
    @Test
    void aRefusalWhoseTextNoEncodingCarriesIsReportedAndHoldsUpNoBatch() {
        String pairs = "x" + "\uD83D\uDE00".repeat(2000);
        billing.onBatch(messages -> messages.get(0).payload() instanceof String text
                ? Map.of(0, text.equals("lone") ? "\uD800" : pairs)
                : Map.of());
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "lone", ACKNOWLEDGED));
        assertThrows(ExecutionFailedException.class, () -> analytics.send("billing", "pairs", ACKNOWLEDGED));
        analytics.send("billing", 1, ACKNOWLEDGED);
    }
}
