package speed.internal.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.Message;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.PendingCalls.RequestKey;
import speed.internal.engine.call.Calls;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.SpcRequest;
import speed.internal.wire.SpcResponse;
import speed.tool.BenchRoot;

/** L-21: what comes without a grant is discarded at once; what lay there at the start waits for one. */
@Timeout(300)
class UngrantedTest {
    private static final Duration SOON = Duration.ofSeconds(60);

    private BenchRoot root;
    private RunningNode billing;
    private RunningNode guest;
    private OutgoingLink link;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        billing = new RunningNode(root, "billing", "auditor");
        guest = new RunningNode(root, "guest", "billing");
        link = linkOf(guest);
    }

    @AfterEach
    void close() throws IOException {
        link.shut();
        guest.close();
        billing.close();
        root.close();
    }

    /** One that looks at no grant. */
    private static OutgoingLink linkOf(RunningNode sender) {
        return new OutgoingLink(sender.runtime.context(), "billing", null, OutgoingLink::wake, full -> false);
    }

    private static void send(OutgoingLink link, EnvelopeType type, byte[] payload) {
        link.send(Load.of(type, 0, payload, System.nanoTime() + SOON.toNanos()));
    }

    private static void send(OutgoingLink link, String text) {
        MessageDraft draft = new MessageDraft(text, "message", "default", 1, "guest", MessageDraft.Options.NONE);
        send(link, EnvelopeType.MESSAGE, draft.encode(text));
    }

    private void allow(String name) {
        billing.runtime.context().policy.allow(name);
        billing.runtime.lookAgain();
    }

    private Object received() throws InterruptedException {
        Message message = billing.runtime.delivery().receive(SOON);
        assertNotNull(message);
        return message.payload();
    }

    private void awaitDiscarded() {
        long until = System.nanoTime() + SOON.toNanos();
        while (!Long.valueOf(1)
                .equals(billing.runtime.context().stats.counters().get("unauthorised"))) {
            assertTrue(System.nanoTime() < until, "nothing was discarded");
            Thread.onSpinWait();
        }
    }

    /** Until what comes does not lie there from before the start of {@code billing}. */
    private void passFirstScan() throws InterruptedException {
        try (RunningNode auditor = new RunningNode(root, "auditor")) {
            OutgoingLink granted = linkOf(auditor);
            send(granted, "from the auditor");
            assertEquals("from the auditor", received());
            granted.shut();
        }
    }

    @Test
    void aMessageWithoutAGrantIsDiscardedAtOnceAndALaterGrantDoesNotDeliverIt() throws InterruptedException {
        passFirstScan();
        send(link, "unasked");
        awaitDiscarded();
        allow("guest");
        send(link, "allowed");
        assertEquals("allowed", received());
    }

    @Test
    void aRequestWithoutAGrantIsAnswered() throws Exception {
        passFirstScan();
        CompletableFuture<Outcome> answer = new CompletableFuture<>();
        guest.runtime
                .context()
                .pending
                .add(new Call(new RequestKey("9.1"), System.nanoTime() + SOON.toNanos(), "billing", answer::complete));
        send(
                link,
                EnvelopeType.SPC_REQUEST,
                new SpcRequest("9.1", "one", Map.of(), "guest", 1, Long.MAX_VALUE, "", 0, null, false).encode());
        Outcome outcome = answer.get(60, TimeUnit.SECONDS);
        assertEquals("ACCESS_DENIED", SpcResponse.decode(Calls.payload(outcome)).errorCode());
    }

    @Test
    void whatLayThereAtTheStartIsDeliveredOnceItIsGranted() throws InterruptedException {
        billing.close();
        send(link, "early");
        billing = new RunningNode(root, "billing", "auditor");
        passFirstScan();
        allow("guest");
        assertEquals("early", received());
    }
}
