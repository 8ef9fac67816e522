package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Limits;
import speed.options.SendOptions;

/** Large payloads from node to node, which lie in slots. */
class LargePayloadTest extends TwoNodes {
    private static byte[] random(int size) {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        return bytes;
    }

    private List<Path> files(String receiver, String sender, String ending) throws IOException {
        try (Stream<Path> files =
                Files.list(root.path().resolve(receiver).resolve("inbox").resolve(sender))) {
            return files.filter(file -> file.toString().endsWith(ending))
                    .sorted()
                    .toList();
        }
    }

    @Test
    void callsOfOneMebibyteBothWaysTakeTurnsInOneSlotEach() throws IOException {
        billing.register("echo", request -> request.arguments().get("data"));
        analytics.register("echo", request -> request.arguments().get("data"));
        byte[] data = random(1 << 20);
        for (int round = 0; round < 20; round++) {
            assertArrayEquals(data, (byte[]) analytics.call("billing", "echo", Map.of("data", data)));
            assertArrayEquals(data, (byte[]) billing.call("analytics", "echo", Map.of("data", data)));
        }
        assertTrue(files("billing", "analytics", ".slot").size() <= 3);
        assertTrue(files("analytics", "billing", ".slot").size() <= 3);
        assertEquals(0L, total(files("billing", "analytics", ".lane")) >> 20);
    }

    private static long total(List<Path> files) throws IOException {
        long total = 0;
        for (Path file : files) {
            total += Files.size(file);
        }
        return total;
    }

    @Test
    void messagesOfEightMebibytesArriveInOrderWithSmallOnesBetween() throws InterruptedException {
        BlockingQueue<byte[]> received = new LinkedBlockingQueue<>();
        billing.onMessage(message -> received.add((byte[]) message.payload()));
        byte[] large = random(8 << 20);
        for (int number = 0; number < 6; number++) {
            analytics.send("billing", large);
            analytics.send("billing", new byte[] {(byte) number});
        }
        for (int number = 0; number < 6; number++) {
            assertArrayEquals(large, received.poll(60, TimeUnit.SECONDS));
            assertArrayEquals(new byte[] {(byte) number}, received.poll(60, TimeUnit.SECONDS));
        }
    }

    /** The first waits in its handler, so no cursor passes it, and those behind it are listed or not finished. */
    @Test
    void whatFindsNoFreeSlotGoesIntoTheLaneAndOvertakesNothing() throws Exception {
        CountDownLatch goOn = new CountDownLatch(1);
        List<Integer> received = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(40);
        billing.onMessage(message -> {
            waitFor(goOn);
            received.add(((byte[]) message.payload())[0] & 0xFF);
            all.countDown();
        });
        List<Integer> sent = new ArrayList<>();
        List<Object> batch = new ArrayList<>();
        for (int number = 0; number < 40; number++) {
            byte[] payload = new byte[number % 4 == 3 ? 10 : 200_000];
            payload[0] = (byte) number;
            sent.add(number);
            batch.add(payload);
        }
        analytics.sendAll("billing", batch);
        assertEquals(Limits.MAX_SLOTS, files("billing", "analytics", ".slot").size());
        goOn.countDown();
        waitFor(all);
        assertEquals(sent, received);
    }

    private static void waitFor(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException unexpected) {
            throw new AssertionError(unexpected);
        }
    }

    @Test
    void noSlotIsLeftWhenALinkEnds() throws Exception {
        BlockingQueue<Object> received = new LinkedBlockingQueue<>();
        billing.onMessage(message -> received.add(message.payload()));
        SendOptions acknowledged = SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);
        analytics.send("billing", random(1 << 20), acknowledged);
        analytics.send("billing", 2, acknowledged); // by now the first is committed
        assertEquals(1, files("billing", "analytics", ".slot").size());
        analytics.close();
        assertEquals(List.of(), files("billing", "analytics", ".slot"));
    }
}
