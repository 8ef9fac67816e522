package speed.internal.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.Message;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.PendingCalls.SequenceKey;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.wire.Control;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.MessageDraft;
import speed.tool.BenchRoot;

/** L-15: what a lane held is delivered, whatever becomes of the envelopes before it. */
@Timeout(300)
class ProtocolTest {
    private static final Duration SOON = Duration.ofSeconds(60);

    private BenchRoot root;
    private RunningNode billing;
    private RunningNode analytics;
    private OutgoingLink link;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        billing = new RunningNode(root, "billing", "analytics");
        analytics = new RunningNode(root, "analytics");
        link = new OutgoingLink(analytics.runtime.context(), "billing", null, OutgoingLink::wake, full -> false);
    }

    @AfterEach
    void close() throws IOException {
        link.shut();
        analytics.close();
        billing.close();
        root.close();
    }

    /** Something that waits in billing for an acknowledgement by analytics. */
    private void expect(long sequence, Consumer<Outcome> completion) {
        billing.runtime
                .context()
                .pending
                .add(new Call(
                        new SequenceKey("analytics", sequence),
                        System.nanoTime() + 3 * SOON.toNanos(),
                        "analytics",
                        completion));
    }

    private void acknowledge(long sequence) {
        link.send(Load.urgent(EnvelopeType.ACK, EnvelopeType.REPLY, List.of(Control.encodeAck(sequence, false))));
    }

    private void send(String text) {
        byte[] message =
                new MessageDraft(text, "message", "default", 1, "analytics", MessageDraft.Options.NONE).encode(text);
        link.send(Load.of(EnvelopeType.MESSAGE, 0, message, System.nanoTime() + SOON.toNanos()));
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException hurry) {
            throw new IllegalStateException(hurry);
        }
    }

    private Object counter(String name) {
        return billing.runtime.context().stats.counters().get(name);
    }

    @Test
    void anErrorLosesNothingOfWhatWasReadWithIt() throws InterruptedException {
        CountDownLatch held = new CountDownLatch(1);
        CountDownLatch written = new CountDownLatch(1);
        expect(1, outcome -> {
            held.countDown();
            await(written);
        });
        expect(2, outcome -> {
            throw new OutOfMemoryError("once");
        });
        acknowledge(1);
        await(held); // what follows is read at once
        acknowledge(2);
        send("one");
        send("two");
        written.countDown();
        for (String text : List.of("one", "two")) {
            Message message = billing.runtime.delivery().receive(SOON);
            assertNotNull(message, text);
            assertEquals(text, message.payload());
        }
        assertEquals(1L, counter("lanes_failed"));
    }
}
