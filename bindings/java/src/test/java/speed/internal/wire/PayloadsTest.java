package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;

/** S-1 requests, S-2 responses, S-11 and S-12 control payloads. */
class PayloadsTest {
    private final Contract vectors = Contract.vectors("payloads");

    @TestFactory
    Stream<DynamicTest> aValidPayloadHasTheStatedFields() {
        return Stream.concat(
                vectors.each("valid", PayloadsTest::assertRead), vectors.each("also_read", PayloadsTest::assertRead));
    }

    private static void assertRead(Contract one) {
        Map<?, ?> stated = (Map<?, ?>) one.value("fields");
        Map<Object, Object> read = new LinkedHashMap<>(fields(one.text("kind"), one.bytes("hex")));
        stated.keySet().retainAll(read.keySet()); // unknown keys are ignored
        stated.forEach((name, value) ->
                assertEquals(Contract.spelled(value), Contract.spelled(read.get(name)), name.toString()));
    }

    @TestFactory
    Stream<DynamicTest> anInvalidPayloadIsRefused() {
        return vectors.each("invalid", one -> {
            WireException refused = assertThrows(WireException.class, () -> fields(one.text("kind"), one.bytes("hex")));
            assertEquals("BAD_PAYLOAD", refused.reason());
            if (one.has("answered")) {
                assertEquals(one.get("answered"), SpcHead.readableId(one.bytes("hex")));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> aRequestIsWrittenAsTheReferenceWritesIt() {
        return vectors.cases("valid").stream()
                .filter(one -> one.text("kind").equals("request"))
                .map(one -> DynamicTest.dynamicTest(one.text("name"), () -> {
                    SpcRequest request = SpcRequest.decode(one.bytes("hex"));
                    boolean extended = ((Map<?, ?>) one.value("fields")).size() > 6;
                    if (!extended) {
                        assertEquals(request, SpcRequest.decode(request.encode()));
                        assertArrayEquals(
                                request.encode(),
                                SpcRequest.decode(request.encode()).encode());
                    }
                }));
    }

    private static Map<?, ?> fields(String kind, byte[] payload) {
        return switch (kind) {
            case "request" -> requestFields(SpcRequest.decode(payload));
            case "response" -> responseFields(SpcResponse.decode(payload));
            default -> Control.decode(payload);
        };
    }

    private static Map<String, Object> requestFields(SpcRequest request) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", request.requestId());
        fields.put("service", request.service());
        fields.put("arguments", request.arguments());
        fields.put("caller", request.caller());
        fields.put("generation", (long) request.generation());
        fields.put("deadline", request.deadlineMs());
        fields.put("traceparent", request.traceparent());
        return fields;
    }

    private static Map<String, Object> responseFields(SpcResponse response) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("requestId", response.requestId());
        fields.put("status", response.isSuccess() ? "SUCCESS" : "ERROR");
        fields.put("result", response.result());
        fields.put("errorCode", response.errorCode());
        fields.put("errorMessage", response.errorMessage());
        fields.put("details", response.details());
        return fields;
    }

    /** S-2: the error itself matters more than what it carries. */
    @Test
    void detailsThatCannotTravelAreLeftOut() {
        SpcResponse answer = SpcResponse.decode(
                new SpcResponse("request-1", null, "EXECUTION_FAILED", "broken", Map.of("cause", new Object()))
                        .encode());
        assertEquals("EXECUTION_FAILED", answer.errorCode());
        assertEquals(Map.of(), answer.details());
    }

    /** S-11: sequences fill 64 bits. */
    @Test
    void aSequenceOfAllBitsIsCarriedByAControlMessage() {
        for (long sequence : new long[] {1, Long.MAX_VALUE, -1}) {
            assertEquals(sequence, Control.sequence(Control.decode(Control.encodeAck(sequence, false))));
        }
    }
}
