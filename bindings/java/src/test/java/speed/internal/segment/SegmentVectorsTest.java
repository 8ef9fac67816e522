package speed.internal.segment;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.errors.ConfigurationException;
import speed.errors.WireException;
import speed.internal.wire.Contract;
import speed.internal.wire.Hashes;
import speed.options.SegmentLimits;

/** Segments, parity and verdicts are those of segments.json, in every language the same (G-1 to G-16). */
class SegmentVectorsTest {
    private final Contract vectors = Contract.vectors("segments");

    /** G-3. */
    @TestFactory
    Stream<DynamicTest> hashesAreThoseOfTheCompetition() {
        return vectors.each("hashes", one -> assertEquals(one.text("hash"), hex(Keccak.of(one.bytes("hex")))));
    }

    /** G-4. */
    @TestFactory
    Stream<DynamicTest> aSegmentSizeIsAMaximumThatParityCutsDownToAMultipleOf64() {
        return vectors.each("sizes", one -> {
            int requested = (int) one.number("asked");
            double rate = ((Number) one.get("parity_rate")).doubleValue();
            if (one.has("used")) {
                assertEquals(
                        one.number("used"),
                        new Splitter(requested, rate).shape(0).segmentSize());
            } else {
                assertThrows(ConfigurationException.class, () -> new Splitter(requested, rate));
            }
        });
    }

    /** G-1, G-4 to G-9. */
    @TestFactory
    Stream<DynamicTest> payloadsAreCutAsEverywhere() {
        return vectors.each("cut", one -> {
            List<Segment> segments = Cases.segments(one.text("name"));
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            segments.forEach(segment -> all.writeBytes(segment.write()));
            List<?> parity = segments.stream()
                    .filter(Segment::isParity)
                    .map(part -> hex(part.payload()))
                    .toList();
            if (one.has("parity")) {
                assertEquals(one.get("parity"), parity);
            }
            assertEquals(one.text("segments_sha256"), hex(Hashes.sha256(all.toByteArray())));
            for (Segment segment : segments) {
                assertArrayEquals(segment.write(), Segment.read(segment.write()).write());
            }
        });
    }

    /** G-1. */
    @TestFactory
    Stream<DynamicTest> segmentsOfOtherWritersAreRead() {
        return vectors.each("also_read", one -> {
            Contract wanted = one.object("segment");
            Segment read = Segment.read(one.bytes("hex"));
            assertEquals(wanted.text("hash"), hex(read.hash()));
            assertEquals(wanted.number("data_count"), read.dataCount());
            assertEquals(wanted.number("parity_count"), read.parityCount());
            assertEquals(wanted.number("index"), read.index());
            assertEquals(wanted.get("is_parity"), read.isParity());
            assertEquals(wanted.get("unordered"), read.unordered());
            assertEquals(wanted.text("payload"), hex(read.payload()));
        });
    }

    /** G-2. */
    @TestFactory
    Stream<DynamicTest> whatIsNoSegmentIsRefusedAndTheFieldNamed() {
        return vectors.each("invalid", one -> {
            WireException refused = assertThrows(WireException.class, () -> Segment.read(one.bytes("hex")));
            assertEquals(one.text("error"), refused.reason());
            assertTrue(refused.getMessage().contains(": " + one.text("field") + ":"), refused.getMessage());
        });
    }

    /** G-12 to G-16. */
    @TestFactory
    Stream<DynamicTest> arrivalsHaveTheirVerdicts() {
        return vectors.each("arrivals", story -> {
            Assembler assembler = new Assembler(limits(story));
            for (Contract arrival : story.cases("arrivals")) {
                arrive(assembler, arrival);
            }
        });
    }

    private static void arrive(Assembler assembler, Contract arrival) {
        byte[] data = arrival.has("hex")
                ? arrival.bytes("hex")
                : Cases.segments(arrival.text("of"))
                        .get((int) arrival.number("slot"))
                        .write();
        long nowMs = arrival.get("at") instanceof Number at ? (long) (at.doubleValue() * 1000) : 0;
        String verdict;
        byte[] payload = null;
        try {
            Assembler.Outcome outcome = assembler.receive(arrival.text("from"), data, nowMs);
            verdict = outcome.verdict().name().toLowerCase(Locale.ROOT);
            payload = outcome.payload();
        } catch (WireException refused) {
            verdict = refused.reason();
        }
        assertEquals(arrival.text("verdict"), verdict, arrival.values().toString());
        if (arrival.has("payload")) {
            assertArrayEquals(Cases.payload(arrival.text("payload")), payload);
        } else {
            assertNull(payload);
        }
    }

    private static SegmentLimits limits(Contract story) {
        SegmentLimits usual = SegmentLimits.DEFAULT;
        Map<?, ?> stated = story.has("limits") ? (Map<?, ?>) story.get("limits") : Map.of();
        return new SegmentLimits(
                number(stated, "max_segmented_bytes", usual.payloadBytes()),
                (int) number(stated, "max_reconstructions", usual.reconstructions()),
                (int) number(stated, "max_sender_reconstructions", usual.senderReconstructions()),
                number(stated, "max_buffered_bytes", usual.bufferedBytes()),
                number(stated, "max_sender_buffered_bytes", usual.senderBufferedBytes()),
                usual.completions(),
                usual.senderCompletions(),
                Duration.ofSeconds(60),
                Duration.ofSeconds(3600),
                Duration.ofSeconds(600));
    }

    private static long number(Map<?, ?> stated, String name, long otherwise) {
        return stated.get(name) instanceof Long number ? number : otherwise;
    }

    private static String hex(byte[] data) {
        return HexFormat.of().formatHex(data);
    }
}
