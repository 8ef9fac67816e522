package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.StringValue;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.internal.wire.MessageDraft.MessageIds;
import speed.internal.wire.MessageView.TraceParent;

/** M-1 to M-14: messages. */
class MessagesTest {
    private final Contract vectors = Contract.vectors("messages");

    @TestFactory
    Stream<DynamicTest> aValidMessageHasTheStatedFields() {
        return vectors.each("valid", one -> {
            Map<String, Object> read = fields(MessageView.of(one.bytes("hex")));
            one.object("expected").values().forEach((name, value) -> {
                if (read.containsKey(name)) {
                    assertEquals(Json.write(value), Json.write(read.get(name)), name.toString());
                }
            });
            assertArrayEquals(one.bytes("hex"), MessageView.of(one.bytes("hex")).bytes());
        });
    }

    private static Map<String, Object> fields(MessageView view) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", view.topic());
        fields.put("namespace", view.namespace());
        fields.put("message_id", view.messageId());
        fields.put("published_at_ms", view.publishedAtMs());
        fields.put("priority", view.priority());
        fields.put("ttl_seconds", view.ttlSeconds());
        fields.put("content_type", view.contentType());
        fields.put("content_encoding", view.contentEncoding());
        fields.put("payload_hex", HexFormat.of().formatHex(view.payloadBytes()));
        fields.put("correlation_id", view.correlationId());
        fields.put("causality_parent", view.causalityParent());
        fields.put("traceparent", view.traceparent());
        fields.put("publisher_id", view.publisherId());
        fields.put("labels", view.labels());
        fields.put("baggage", view.baggage());
        Map<String, String> extensions = new LinkedHashMap<>();
        view.extensions()
                .forEach((key, value) -> extensions.put(key, HexFormat.of().formatHex(value)));
        fields.put("extensions_hex", extensions);
        return fields;
    }

    @TestFactory
    Stream<DynamicTest> aMessageIsWrittenWithTheStatedBytes() {
        return vectors.each(
                "written",
                one -> assertArrayEquals(
                        one.bytes("hex"), draft(one.object("fields")).encode(one.value("value"))));
    }

    /** M-5. */
    @TestFactory
    Stream<DynamicTest> aMessageWithAWrongFieldIsNotWritten() {
        return vectors.each("not_written", one -> {
            MessageDraft draft = draft(one.object("fields"));
            WireException refused = assertThrows(WireException.class, () -> draft.encode(null));
            assertTrue(refused.getMessage().contains(one.text("field")), refused.getMessage());
        });
    }

    /** The fields of a case as a writer takes them. */
    private static MessageDraft draft(Contract fields) {
        Map<String, byte[]> extensions = new LinkedHashMap<>();
        texts(fields, "extensions_hex")
                .forEach((key, value) -> extensions.put(key, HexFormat.of().parseHex(value)));
        return new MessageDraft(
                fields.text("message_id"),
                fields.text("topic"),
                fields.text("namespace"),
                fields.number("published_at_ms"),
                fields.text("publisher_id"),
                new MessageDraft.Options(
                        fields.has("priority") ? (int) fields.number("priority") : 0,
                        fields.has("ttl_seconds") ? fields.number("ttl_seconds") : 0,
                        fields.text("correlation_id"),
                        fields.text("causality_parent"),
                        fields.text("traceparent"),
                        texts(fields, "labels"),
                        texts(fields, "baggage"),
                        extensions));
    }

    private static Map<String, String> texts(Contract fields, String name) {
        Map<String, String> texts = new LinkedHashMap<>();
        if (fields.has(name)) {
            fields.object(name).values().forEach((key, value) -> texts.put((String) key, (String) value));
        }
        return texts;
    }

    @TestFactory
    Stream<DynamicTest> jsonIsReadAsEverywhere() {
        return vectors.object("json_payloads").each("valid", one -> assertDoesNotThrow(() -> json(one)));
    }

    @TestFactory
    Stream<DynamicTest> whatIsNoJsonIsRefusedAsEverywhere() {
        return vectors.object("json_payloads")
                .each("invalid", one -> assertThrows(WireException.class, () -> json(one)));
    }

    private static Object json(Contract one) {
        byte[] text = one.bytes("hex");
        return Content.decode("application/json", "", text, 0, text.length);
    }

    @TestFactory
    Stream<DynamicTest> anInvalidMessageIsRefusedWithItsField() {
        return vectors.each("invalid", one -> {
            WireException refused = assertThrows(WireException.class, () -> MessageView.of(one.bytes("hex")));
            assertEquals("BAD_MESSAGE", refused.reason());
            boolean notText = one.text("name").endsWith("not UTF-8");
            assertTrue(notText || refused.getMessage().contains(": " + one.text("field") + ":"), refused.getMessage());
        });
    }

    @TestFactory
    Stream<DynamicTest> aMessageIdIsMadeOfTimeAndRandomBytes() {
        return vectors.cases("message_ids").stream()
                .map(one -> DynamicTest.dynamicTest(one.text("message_id"), () -> {
                    byte[] random = one.bytes("random_hex");
                    String made = MessageIds.fresh(one.number("unix_ms"), Arrays.copyOfRange(random, 6, 16));
                    assertEquals(one.text("message_id"), made);
                }));
    }

    @TestFactory
    Stream<DynamicTest> anIdOfWorkThatIsDoneAgainIsTheSame() {
        return vectors.cases("repeated_ids").stream()
                .map(one -> DynamicTest.dynamicTest(one.text("message_id"), () -> {
                    List<String> names = ((List<?>) one.get("names"))
                            .stream().map(String.class::cast).toList();
                    assertEquals(one.text("message_id"), MessageIds.repeated(names, one.number("number")));
                }));
    }

    @Test
    void aWorkHasNoMoreMessagesThanItsIdsCanNumber() {
        assertThrows(WireException.class, () -> MessageIds.repeated(List.of("work"), 1L << 48));
        assertThrows(WireException.class, () -> MessageIds.repeated(List.of("work"), -1));
    }

    @Test
    void traceparentsAreReadStrictly() {
        Contract traces = vectors.object("traceparents");
        for (Object valid : (List<?>) traces.get("valid")) {
            TraceParent.parse((String) valid);
        }
        for (Object invalid : (List<?>) traces.get("invalid")) {
            assertThrows(WireException.class, () -> TraceParent.parse((String) invalid), invalid::toString);
        }
    }

    @Test
    void aWrittenMessageIsReadBack() {
        String trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        MessageDraft draft = new MessageDraft(
                "id-1",
                "orders.created",
                "default",
                1_700_000_000_123L,
                "billing",
                new MessageDraft.Options(
                        8,
                        60,
                        "c",
                        "p",
                        trace,
                        Map.of("region", "eu"),
                        Map.of("tenant", "a"),
                        Map.of("x-retry", new byte[] {3})));
        MessageView view = MessageView.of(draft.encode(Map.of("amount", 1000)));
        assertEquals(Map.of("amount", 1000L), view.payload());
        assertEquals(trace, view.traceparent());
        assertEquals(8, view.priority());
        assertEquals(Map.of("region", "eu"), view.labels());
        assertTrue(view.isExpired(1_700_000_060_123L));
    }

    /** M-8, M-10: a protobuf message travels with its type, and comes back as an Any. */
    @Test
    void aProtobufPayloadTravelsWithItsType() throws InvalidProtocolBufferException {
        StringValue sent = StringValue.of("hello");
        MessageView view = MessageView.of(draft(0, null).encode(sent));
        assertEquals("application/protobuf", view.contentType());
        assertEquals(sent, ((Any) view.payload()).unpack(StringValue.class));
    }

    /** M-10. */
    @Test
    void textThatUtf8CannotCarryIsRefusedByTheWriter() {
        assertThrows(UnserialisableException.class, () -> draft(0, null).encode("\ud800"));
    }

    /** M-7. */
    @Test
    void aMessageExpiresOnlyIfItSaysWhen() {
        assertFalse(MessageView.of(draft(0, null).encode(1)).isExpired(Long.MAX_VALUE));
        assertFalse(MessageView.of(draft(60, null).encode(1)).isExpired(1_700_000_059_999L));
        assertTrue(MessageView.of(draft(60, null).encode(1)).isExpired(1_700_000_060_000L));
    }

    /** M-11: both ids, and neither all zero. */
    @Test
    void aTraceparentIsValidWithBothIdsAndOneByteOfFlags() {
        String trace = "0af7651916cd43dd8448eb211c80319c";
        String span = "b7ad6b7169203331";
        assertTrue(new TraceParent(trace, span, 255).isValid());
        for (TraceParent bad : List.of(
                new TraceParent("", span, 1),
                new TraceParent(trace, "", 1),
                new TraceParent(trace.toUpperCase(Locale.ROOT), span, 1),
                new TraceParent(trace, "z".repeat(16), 1),
                new TraceParent("0".repeat(32), span, 1),
                new TraceParent(trace, "0".repeat(16), 1),
                new TraceParent(trace, span, -1),
                new TraceParent(trace, span, 256))) {
            assertFalse(bad.isValid(), bad::toString);
        }
        String text = new TraceParent(trace, span, 1).toString();
        for (int dash : new int[] {2, 35, 52}) {
            String broken = text.substring(0, dash) + "_" + text.substring(dash + 1);
            assertThrows(WireException.class, () -> TraceParent.parse(broken));
        }
    }

    private static MessageDraft draft(long ttlSeconds, String traceparent) {
        return new MessageDraft(
                "id-1",
                "orders.created",
                "default",
                1_700_000_000_000L,
                null,
                new MessageDraft.Options(0, ttlSeconds, null, null, traceparent, Map.of(), Map.of(), Map.of()));
    }
}
