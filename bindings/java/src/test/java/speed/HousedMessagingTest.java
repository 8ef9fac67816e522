package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.ConfigurationException;
import speed.errors.InvalidArgumentsException;
import speed.errors.SchemaException;
import speed.errors.StorageException;
import speed.message.Algorithm;
import speed.message.AuditLog;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.PayloadSchema;
import speed.message.Protection;
import speed.message.SchemaReference;
import speed.message.Schemas;
import speed.options.SendOptions;
import speed.tool.BenchRoot;

/** M-29, M-31: nodes with an audit and with schemas. */
@Timeout(300)
class HousedMessagingTest {
    private static final Duration SOON = Duration.ofSeconds(60);
    private static final byte[] FILE = {'{', '}'};
    private static final SchemaReference ORDER = SchemaReference.of("order", "v1", "json-schema", FILE);
    private static final SendOptions PERSONAL = SendOptions.DEFAULT.withProtection(Protection.NONE.withPii());

    private final Lines lines = new Lines();
    private final BlockingQueue<Object> handled = new LinkedBlockingQueue<>();
    private BenchRoot root;
    private Node orders;
    private Node billing;
    /** Whether schemas cannot be reached. */
    private volatile boolean isAway;

    /** What is told, and to which it may be told no more. */
    private static final class Lines implements AuditLog {
        private final List<String> recorded = new CopyOnWriteArrayList<>();
        private volatile boolean isFull;

        @Override
        public void write(Map<String, Object> line) {
            if (isFull) {
                throw new StorageException("the audit log is full; nothing was done", 0);
            }
            recorded.add(line.get("operation") + " " + line.get("source") + " " + line.get("reader"));
        }

        @Override
        public void close() {}
    }

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        orders = root.node("orders", "billing");
        Schemas schemas = (name, version) -> {
            if (isAway) {
                throw new UncheckedIOException(new IOException("the registry does not answer"));
            }
            return Optional.of(PayloadSchema.of(FILE, false, HousedMessagingTest::check));
        };
        billing = root.builder("billing", "orders")
                .security(MessageSecurity.NONE.withAudit(lines).withSchemas(schemas))
                .open();
    }

    @AfterEach
    void close() throws IOException {
        billing.close();
        orders.close();
        root.close();
    }

    private static List<String> check(String contentType, byte[] payload) {
        if (contentType.equals("text/plain")) {
            throw new SchemaException("amount: is missing");
        }
        return List.of();
    }

    private Object next() throws InterruptedException {
        return handled.poll(SOON.toSeconds(), TimeUnit.SECONDS);
    }

    /** Remembers the payload, and how many lines there were when it came. */
    private void keep(Message message) {
        handled.add(message.payload() + " after " + lines.recorded.size());
    }

    @Test
    void whatIsPersonalIsAuditedBeforeAHandlerHasIt() throws InterruptedException {
        billing.onMessage(this::keep);
        orders.send("billing", "card", PERSONAL);
        assertEquals("card after 1", next());
        assertEquals(List.of("access orders billing"), lines.recorded);
    }

    @Test
    void whatIsPersonalIsAuditedBeforeABatchHasIt() throws InterruptedException {
        billing.onBatch(messages -> {
            messages.forEach(this::keep);
            return Map.of();
        });
        orders.send("billing", "card", PERSONAL);
        assertEquals("card after 1", next());
    }

    @Test
    void whatIsPersonalIsAuditedBeforeItIsFetched() throws InterruptedException {
        orders.send("billing", "card", PERSONAL);
        assertEquals("card", billing.receive(SOON).payload());
        assertEquals(List.of("access orders billing"), lines.recorded);
    }

    @Test
    void whatIsPersonalIsAuditedBeforeASubscriberHasIt() throws InterruptedException {
        billing.subscribe("cards.*", this::keep);
        assertEquals(1, orders.publish("cards.new", "card", PERSONAL).count());
        assertEquals("card after 1", next());
    }

    @Test
    void whatCannotBeAuditedWaitsUntilItCan() throws InterruptedException {
        lines.isFull = true;
        billing.onMessage(this::keep);
        orders.send("billing", "card", PERSONAL);
        assertNull(handled.poll(300, TimeUnit.MILLISECONDS));
        lines.isFull = false;
        assertEquals("card after 1", next());
    }

    @Test
    void whatCannotBeAuditedIsNotFetchedAndTheTimeoutHolds() throws InterruptedException {
        lines.isFull = true;
        orders.send("billing", "card", PERSONAL);
        assertNull(billing.receive(Duration.ofMillis(300)));
        lines.isFull = false;
        Message message = billing.receive(SOON);
        assertEquals("card", message.payload());
        assertEquals(1, message.deliveries());
    }

    @Test
    void aBatchWaitsForWhatCannotBeAudited() throws InterruptedException {
        lines.isFull = true;
        billing.onBatch(messages -> {
            messages.forEach(this::keep);
            return Map.of();
        });
        orders.send("billing", "card", PERSONAL);
        assertNull(handled.poll(300, TimeUnit.MILLISECONDS));
        lines.isFull = false;
        assertEquals("card after 1", next());
    }

    @Test
    void whatCannotBeAuditedIsNotSent() throws InterruptedException {
        orders.onMessage(this::keep);
        lines.isFull = true;
        MessageKey key = MessageKey.generate("billing-1", Algorithm.ED25519);
        SendOptions signed = SendOptions.DEFAULT.withProtection(Protection.NONE.signWith(key));
        assertThrows(StorageException.class, () -> billing.send("orders", "signed", signed));
        assertThrows(StorageException.class, () -> billing.sendAll("orders", List.of("a", "b"), signed));
        billing.send("orders", "plain");
        assertEquals("plain after 0", next());
    }

    @Test
    void whoSendsWhatDoesNotFitGetsTheReason() {
        billing.onMessage(this::keep);
        InvalidArgumentsException refused = assertThrows(
                InvalidArgumentsException.class,
                () -> orders.send(
                        "billing",
                        "text",
                        SendOptions.DEFAULT
                                .withSchema(ORDER)
                                .withAcknowledgement()
                                .withTimeout(SOON)));
        assertTrue(refused.getMessage().contains("BAD_SCHEMA: amount: is missing"), refused.getMessage());
        assertEquals(List.of("receive orders billing"), lines.recorded);
    }

    @Test
    void whatCannotBeJudgedWaitsUntilItsSchemaIsReached() throws InterruptedException {
        isAway = true;
        billing.onMessage(this::keep);
        orders.send("billing", 1, SendOptions.DEFAULT.withSchema(ORDER));
        assertNull(handled.poll(300, TimeUnit.MILLISECONDS));
        isAway = false;
        assertEquals("1 after 0", next());
    }

    @Test
    void aFileKeepsWhatANodeDoes() throws IOException, InterruptedException {
        Path file = root.path().resolve("audit.jsonl");
        try (AuditLog log = AuditFile.open(file);
                Node audited = root.builder("audited", "orders")
                        .security(MessageSecurity.NONE.withAudit(log))
                        .open()) {
            orders.send("audited", "card", PERSONAL);
            assertEquals("card", audited.receive(SOON).payload());
        }
        assertTrue(Files.readString(file).contains("\"operation\":\"access\",\"outcome\":\"ok\""));
    }

    @Test
    void anAuditFileHasASize() {
        Path file = root.path().resolve("audit.jsonl");
        assertThrows(ConfigurationException.class, () -> AuditFile.open(file, 0, 4));
        assertThrows(ConfigurationException.class, () -> AuditFile.open(file, 1, 0));
        assertThrows(ConfigurationException.class, () -> AuditFile.open(null));
    }
}
