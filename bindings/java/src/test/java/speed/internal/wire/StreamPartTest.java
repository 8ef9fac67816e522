package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;
import speed.internal.wire.StreamPart.Credit;
import speed.internal.wire.StreamPart.Progress;

/** S-27, S-28: the published envelopes of streams, and the requests of calls that have one. */
class StreamPartTest {
    private final Contract vectors = Contract.vectors("streams");

    @TestFactory
    Stream<DynamicTest> anEnvelopeHasTheStatedFields() {
        return vectors.each("parts", one -> {
            byte[] payload = one.bytes("payload");
            StreamPart read = StreamPart.decode(payload);
            assertEquals(one.text("requestId"), read.requestId());
            if (one.has("number")) {
                assertItems(one, payload, read);
            } else if (one.has("credit")) {
                List<?> credit = (List<?>) one.get("credit");
                assertEquals(new Credit((Long) credit.get(0), (Long) credit.get(1)), read.credit());
                assertArrayEquals(payload, StreamPart.encodeCredit(read.requestId(), read.credit()));
            } else {
                Map<?, ?> told = one.object("progress").values();
                Progress expected =
                        new Progress((Number) told.get("done"), (Number) told.get("total"), (String) told.get("note"));
                assertEquals(expected, read.progress());
                assertArrayEquals(payload, StreamPart.encodeProgress(read.requestId(), expected));
            }
        });
    }

    private static void assertItems(Contract one, byte[] payload, StreamPart read) {
        assertEquals(one.number("number"), read.number());
        assertEquals(one.number("items"), read.items());
        assertEquals(one.get("last"), read.last());
        assertEquals(one.number("itemsAt"), read.itemsAt());
        List<byte[]> encoded = new ArrayList<>();
        StreamPart.decodeItems(payload, false).forEach(item -> encoded.add(Values.encode(item, "item")));
        assertEquals(read.items(), encoded.size());
        assertArrayEquals(payload, StreamPart.encodeItems(read.requestId(), read.number(), encoded, read.last()));
    }

    @TestFactory
    Stream<DynamicTest> anyOtherEnvelopeIsRefused() {
        return vectors.each(
                "refused",
                one -> assertEquals(
                        "BAD_PAYLOAD",
                        assertThrows(WireException.class, () -> StreamPart.decode(one.bytes("payload")))
                                .reason()));
    }

    @TestFactory
    Stream<DynamicTest> aRequestSaysWhatTravelsBesideIt() {
        return vectors.each("requests", one -> {
            StreamOffer read = SpcHead.decode(one.bytes("payload")).stream();
            if (one.get("stream") == null) {
                assertNull(read);
                return;
            }
            Contract offer = one.object("stream");
            StreamOffer expected = new StreamOffer(
                    offer.number("items"), offer.number("bytes"), (Boolean) offer.get("sends"), (Boolean)
                            offer.get("progress"));
            assertEquals(expected, read);
            SpcRequest whole = SpcRequest.decode(one.bytes("payload"));
            assertEquals(whole, SpcRequest.decode(whole.encode()));
            byte[] again = SpcRequest.readdressed(one.bytes("payload"), 8, true);
            assertEquals(expected, SpcHead.decode(again).stream());
        });
    }

    @TestFactory
    Stream<DynamicTest> aRequestThatSaysItWronglyIsRefused() {
        return vectors.each(
                "refused_requests",
                one -> assertThrows(WireException.class, () -> SpcHead.decode(one.bytes("payload"))));
    }
}
