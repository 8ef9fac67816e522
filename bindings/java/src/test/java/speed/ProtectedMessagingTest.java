package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.InvalidArgumentsException;
import speed.errors.NotAvailableException;
import speed.errors.WireException;
import speed.internal.wire.Limits;
import speed.message.Algorithm;
import speed.message.KeyBounds;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SignaturePolicy;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** M-18, M-25: nodes whose messages are signed and encrypted. */
@Timeout(300)
class ProtectedMessagingTest {
    private static final Duration SOON = Duration.ofSeconds(60);
    private static final Map<String, Object> ORDER = Map.of("amount", 1000L, "card", "4111-1111");

    private final MessageKey signer =
            MessageKey.generate("orders-1", Algorithm.ED25519).withBounds(KeyBounds.NONE.withPublishers("orders"));
    private final MessageKey reader = MessageKey.generate("billing-1", Algorithm.X25519);
    private final Protection both =
            Protection.NONE.encryptTo(reader.publicPart()).signWith(signer);
    private final SendOptions acknowledged =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON);
    private BenchRoot root;
    private Node orders;
    private Node billing;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        orders = root.node("orders", "billing");
        billing = root.builder("billing", "orders")
                .security(
                        MessageSecurity.NONE.withKeys(reader).withPolicy(SignaturePolicy.REQUIRE, signer.publicPart()))
                .open();
    }

    @AfterEach
    void close() throws IOException {
        billing.close();
        orders.close();
        root.close();
    }

    @Test
    void aMessageIsVerifiedAndOpenedBeforeItsHandlerHasIt() {
        List<Message> handled = new ArrayList<>();
        billing.onMessage(handled::add);
        orders.send(
                "billing",
                ORDER,
                acknowledged.withProtection(both.compressed("gzip").classified("restricted")));
        Message message = handled.get(0);
        assertEquals(ORDER, message.payload());
        assertEquals("orders-1", message.signedBy());
        assertEquals("billing-1", message.openedBy());
        assertEquals("orders", message.publisherId());
        assertEquals("restricted", message.classification());
    }

    @Test
    void whoSendsWithoutASignatureGetsTheCode() throws InterruptedException {
        List<Message> handled = new ArrayList<>();
        billing.onMessage(handled::add);
        InvalidArgumentsException refused =
                assertThrows(InvalidArgumentsException.class, () -> orders.send("billing", ORDER, acknowledged));
        assertTrue(refused.getMessage().contains("UNSIGNED: "), refused.getMessage());
        assertEquals(List.of(), handled);
    }

    @Test
    void receiveSkipsWhatIsRefused() throws InterruptedException {
        orders.send("billing", "not signed");
        orders.sendAll("billing", List.of("one", "two"), SendOptions.DEFAULT.withProtection(both));
        assertEquals("one", billing.receive(SOON).payload());
        assertEquals("two", billing.receive(SOON).payload());
        assertNull(billing.receive(Duration.ofMillis(1)));
    }

    @Test
    void aBatchHoldsWhatIsNotRefused() throws InterruptedException {
        BlockingQueue<Object> handled = new LinkedBlockingQueue<>();
        billing.onBatch(messages -> {
            messages.forEach(message -> handled.add(message.payload()));
            return Map.of();
        });
        assertThrows(InvalidArgumentsException.class, () -> orders.send("billing", "not signed", acknowledged));
        orders.send("billing", "signed", acknowledged.withProtection(both));
        assertEquals("signed", handled.poll(60, TimeUnit.SECONDS));
        assertTrue(handled.isEmpty());
    }

    @Test
    void eventsAreProtectedAsMessagesAre() throws InterruptedException {
        BlockingQueue<Message> events = new LinkedBlockingQueue<>();
        billing.subscribe("orders.*", events::add);
        orders.publish("orders.created", "not signed");
        assertEquals(
                1,
                orders.publish("orders.created", ORDER, SendOptions.DEFAULT.withProtection(both))
                        .count());
        assertEquals(ORDER, events.poll(60, TimeUnit.SECONDS).payload());
    }

    /** M-9: who has no settings hands out what travelled. */
    @Test
    void aNodeWithoutSettingsOpensNothing() throws InterruptedException {
        try (Node plain = root.node("plain", "orders")) {
            orders.send("plain", ORDER, SendOptions.DEFAULT.withProtection(both));
            Message message = plain.receive(SOON);
            assertThrows(WireException.class, message::payload);
            assertNull(message.openedBy());
        }
    }

    /** G-18, M-16: 20 MiB in segments are verified with their payload in its place. */
    @Test
    void whatCameInSegmentsIsVerifiedAndOpened() {
        List<Integer> sizes = new ArrayList<>();
        billing.onMessage(message -> sizes.add(((byte[]) message.payload()).length));
        orders.segment("billing", 4 << 20, 0);
        orders.send("billing", new byte[20 << 20], acknowledged.withProtection(both));
        assertEquals(List.of(20 << 20), sizes);
    }

    @Test
    void whatNoEnvelopeHoldsIsNotProtected() throws IOException {
        Path file = Files.createTempFile("large", null);
        try (var channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.allocate(1), Limits.MAX_PAYLOAD_BYTES);
            assertThrows(
                    NotAvailableException.class,
                    () -> orders.send("billing", file, SendOptions.DEFAULT.withProtection(both)));
        } finally {
            Files.delete(file);
        }
    }
}
