package speed.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static speed.message.Written.AT_MS;
import static speed.message.Written.VALUE;

import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.SchemaException;
import speed.internal.message.OpenedMessage;
import speed.internal.wire.MessageView;
import speed.internal.wire.Values;
import speed.message.AuditTest.Lines;
import speed.message.PayloadSchema.Check;

/** M-29: payloads that are held to schemas of the program. */
class SchemasTest {
    private static final byte[] FILE = "{\"required\": [\"amount\"]}".getBytes(StandardCharsets.UTF_8);
    private static final SchemaReference ORDER = SchemaReference.of("order", "v1", "json-schema", FILE);
    private static final Check FITS = (type, payload) -> List.of();
    private static final Check MISFIT = (type, payload) -> {
        throw new SchemaException("amount: is missing");
    };

    private final List<String> lookups = new ArrayList<>();
    private final Lines lines = new Lines();

    private Schemas with(PayloadSchema schema) {
        return (name, version) -> {
            lookups.add(name + "/" + version);
            return Optional.of(schema);
        };
    }

    private static MessageSecurity using(Schemas schemas) {
        return MessageSecurity.NONE.withSchemas(schemas);
    }

    private static MessageView sent(MessageSecurity security, SchemaReference reference) {
        return MessageView.of(new Guard(security, "").write(Written.draft(), VALUE, Protection.NONE, reference));
    }

    private static OpenedMessage received(MessageSecurity security, MessageView view) {
        return new Guard(security, "").open(view, AT_MS, "");
    }

    private static SchemaReference named(String name, String version) {
        return new SchemaReference(name, version, "json-schema", "", ORDER.hash(), "");
    }

    private static PayloadSchema schema(Check check) {
        return PayloadSchema.of(FILE, false, check);
    }

    // --- receiving ---

    @Test
    void aPayloadThatFitsIsHandedOut() {
        OpenedMessage opened = received(using(with(schema(FITS))), sent(MessageSecurity.NONE, ORDER));
        assertEquals(VALUE, opened.payload());
        assertEquals(List.of("order/v1"), lookups);
    }

    @Test
    void aPayloadThatDoesNotFitIsRefusedWithTheTextOfTheCheck() {
        SchemaException refused = assertThrows(
                SchemaException.class, () -> received(using(with(schema(MISFIT))), sent(MessageSecurity.NONE, ORDER)));
        assertEquals("BAD_SCHEMA", refused.code());
        assertEquals("amount: is missing", refused.getMessage());
    }

    @Test
    void anotherHashIsRefusedBeforeThePayloadIsOpened() {
        PayloadSchema another = new PayloadSchema("sha256:" + "0".repeat(64), false, (type, payload) -> {
            throw new AssertionError("it was checked");
        });
        MessageKey theirs = MessageKey.generate("theirs", Algorithm.X25519);
        MessageView view = MessageView.of(new Guard(MessageSecurity.NONE, "")
                .write(Written.draft(), VALUE, Protection.NONE.encryptTo(theirs), ORDER));
        SchemaException refused = assertThrows(SchemaException.class, () -> received(using(with(another)), view));
        assertTrue(refused.getMessage().startsWith("schema_hash: "), refused.getMessage());
    }

    @Test
    void aSchemaThatIsNotHereHoldsNothing() {
        assertEquals(
                VALUE,
                received(using((name, version) -> Optional.empty()), sent(MessageSecurity.NONE, ORDER))
                        .payload());
    }

    @Test
    void aSchemaThatIsNotAmongThoseHereIsNotWritten() {
        MessageSecurity without = using((name, version) -> Optional.empty());
        SchemaException refused = assertThrows(SchemaException.class, () -> sent(without, ORDER));
        assertEquals("BAD_SCHEMA", refused.code());
        assertEquals("there is no schema 'order' of version 'v1' here", refused.getMessage());
        assertEquals("order", sent(without, named("order", "")).schema().name());
        assertEquals("order", sent(MessageSecurity.NONE, ORDER).schema().name());
    }

    @Test
    void aMessageThatNamesNoSchemaIsNotLookedUp() {
        received(using(with(schema(MISFIT))), sent(MessageSecurity.NONE, SchemaReference.NONE));
        received(using(with(schema(MISFIT))), sent(MessageSecurity.NONE, named("order", "")));
        assertEquals(List.of(), lookups);
    }

    @Test
    void theCheckSeesThePayloadDecryptedAndDecompressed() {
        MessageKey reader = MessageKey.generate("reader-1", Algorithm.X25519);
        Protection protection = Protection.NONE.encryptTo(reader).compressed("gzip");
        byte[] message = new Guard(MessageSecurity.NONE, "").write(Written.draft(), VALUE, protection, ORDER);
        List<byte[]> seen = new ArrayList<>();
        Check look = (type, payload) -> {
            assertEquals("application/msgpack", type);
            seen.add(payload);
            return List.of();
        };
        received(using(with(schema(look))).withKeys(reader), MessageView.of(message));
        assertArrayEquals(Values.encode(VALUE, "payload"), seen.get(0));
    }

    @Test
    void aSchemaThatMarksPersonalDataMakesTheMessageOneWithIt() {
        MessageSecurity reading =
                using(with(PayloadSchema.of(FILE, true, FITS))).withAudit(lines);
        MessageView view = sent(MessageSecurity.NONE, ORDER);
        assertFalse(view.security().containsPii());
        assertTrue(received(reading, view).containsPii());
        assertEquals(List.of("access ok"), lines.outcomes());
        assertEquals(true, lines.last("contains_pii"));
        assertEquals("order/v1", lines.last("schema"));
    }

    @Test
    void aRefusalIsAudited() {
        MessageSecurity reading = using(with(schema(MISFIT))).withAudit(lines);
        assertThrows(SchemaException.class, () -> received(reading, sent(MessageSecurity.NONE, ORDER)));
        assertEquals(List.of("receive BAD_SCHEMA"), lines.outcomes());
    }

    @TestFactory
    Stream<DynamicTest> aNameThatCannotBePartOfAPathIsRefusedUnasked() {
        return Stream.of("../secret", "a/b", ".hidden", "a..b", "", "x".repeat(129), "a\0b", "ä")
                .map(name -> DynamicTest.dynamicTest(name.isEmpty() ? "(with an empty version)" : name, () -> {
                    MessageView view =
                            sent(MessageSecurity.NONE, name.isEmpty() ? named("order", "..") : named(name, "v1"));
                    assertThrows(SchemaException.class, () -> received(using(with(schema(FITS))), view));
                    assertEquals(List.of(), lookups);
                }));
    }

    // --- what fails ---

    @TestFactory
    Stream<DynamicTest> whateverACheckThrowsIsAPayloadThatDoesNotFit() {
        Stream<Check> checks = Stream.of(
                (type, payload) -> null,
                (type, payload) -> {
                    throw new IllegalStateException("4111-1111");
                },
                (type, payload) -> {
                    throw new UncheckedIOException(new java.io.IOException("4111-1111"));
                },
                (type, payload) -> endless("x"));
        return checks.map(check -> DynamicTest.dynamicTest("check", () -> {
            SchemaException refused = assertThrows(
                    SchemaException.class,
                    () -> received(using(with(schema(check))), sent(MessageSecurity.NONE, ORDER)));
            assertFalse(refused.getMessage().contains("4111"), refused.getMessage());
        }));
    }

    @SuppressWarnings("InfiniteRecursion")
    private static List<String> endless(String text) {
        return endless(text + text.length());
    }

    @TestFactory
    Stream<DynamicTest> whateverFindThrowsRefusesTheMessage() {
        Stream<Schemas> broken = Stream.of(
                (name, version) -> null,
                (name, version) -> {
                    throw new IllegalStateException("broken");
                },
                (name, version) -> {
                    throw new SchemaException("broken");
                });
        return broken.map(schemas -> DynamicTest.dynamicTest(
                "find",
                () -> assertThrows(
                        SchemaException.class, () -> received(using(schemas), sent(MessageSecurity.NONE, ORDER)))));
    }

    @Test
    void aMessageWhoseSchemaCannotBeReachedIsNotRefused() {
        Schemas away = (name, version) -> {
            throw new UncheckedIOException(new java.io.IOException("the registry does not answer"));
        };
        MessageSecurity reading = using(away).withAudit(lines);
        assertThrows(UncheckedIOException.class, () -> received(reading, sent(MessageSecurity.NONE, ORDER)));
        assertEquals(List.of(), lines.outcomes());
        assertThrows(SchemaException.class, () -> sent(reading, ORDER));
        assertEquals(List.of("send BAD_SCHEMA"), lines.outcomes());
    }

    // --- sending ---

    @Test
    void aPayloadThatDoesNotFitIsNotSent() {
        assertThrows(SchemaException.class, () -> sent(using(with(schema(MISFIT))), ORDER));
    }

    @Test
    void hashDeprecatedFieldsAndPersonalDataComeFromTheSchema() {
        PayloadSchema known = PayloadSchema.of(FILE, true, (type, payload) -> List.of("sum", "buyer.name"));
        MessageView view = sent(using(with(known)), new SchemaReference("order", "v1", "json-schema", "", "", "full"));
        assertEquals(ORDER.hash(), view.schema().hash());
        assertEquals(List.of("sum", "buyer.name"), view.schema().deprecatedFields());
        assertEquals("full", view.schema().compatibility());
        assertTrue(view.security().containsPii());
    }

    @Test
    void aReferenceIsSentAsItIsWhereThereAreNoSchemas() {
        MessageView view = sent(MessageSecurity.NONE, ORDER);
        assertEquals(ORDER.hash(), view.schema().hash());
        assertFalse(view.security().containsPii());
    }
}
