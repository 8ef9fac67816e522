package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;
import speed.internal.wire.Names.LaneFile;

/** L-14 cursors and L-18 fences. */
class LaneFilesVectorsTest {
    private final Contract vectors = Contract.vectors("cursors");
    private final NodeId source = NodeId.of(vectors.text("source"));
    private final NodeId target = NodeId.of(vectors.text("target"));
    private final Keyring ring = new Keyring(vectors.keys("accepted_keys"));
    private final LaneMac mac = new LaneMac(ring, source, target);

    @TestFactory
    Stream<DynamicTest> aCursorIsReadAndWrittenAsStated() {
        return vectors.each("cursors_valid", one -> {
            Cursor cursor = Cursor.decode(one.bytes("hex"), mac);
            Contract stated = one.object("cursor");
            assertEquals(cursor(stated), cursor);
            if (!one.has("only_read")) {
                assertArrayEquals(one.bytes("hex"), cursor.encode(mac));
            }
        });
    }

    private static Cursor cursor(Contract stated) {
        var unfinished = stated.cases("unfinished").stream()
                .map(entry -> new Cursor.Unfinished(
                        entry.sequence("sequence"), segment(entry, "generation"), entry.number("offset"), (Boolean)
                                entry.get("begun")))
                .toList();
        return new Cursor(
                (int) stated.number("receiver_generation"),
                segment(stated, "sender_generation"),
                stated.number("offset"),
                stated.sequence("last_sequence"),
                unfinished,
                (Boolean) stated.get("clean"),
                (Boolean) stated.get("sealed"));
    }

    private static LaneFile segment(Contract stated, String generation) {
        return new LaneFile((int) stated.number(generation), stated.number("segment"));
    }

    @TestFactory
    Stream<DynamicTest> aBrokenCursorIsRefused() {
        return vectors.each(
                "cursors_invalid",
                one -> assertEquals("BAD_CURSOR", reason(() -> Cursor.decode(one.bytes("hex"), mac))));
    }

    @TestFactory
    Stream<DynamicTest> aFenceIsReadAndWrittenAsStated() {
        return vectors.each("fences_valid", one -> {
            Contract stated = one.object("fence");
            Fence fence = new Fence(
                    (int) stated.number("new_generation"), segment(stated, "old_generation"), stated.number("size"));
            assertEquals(fence, Fence.decode(one.bytes("hex"), mac));
            assertArrayEquals(one.bytes("hex"), fence.encode(mac));
        });
    }

    /** L-25. */
    @TestFactory
    Stream<DynamicTest> deliveriesHaveTheStatedCounts() {
        return vectors.each("deliveries_valid", one -> {
            Map<Long, Integer> counts = new HashMap<>();
            for (Object item : (List<?>) one.get("deliveries")) {
                Contract stated = new Contract((Map<?, ?>) item);
                counts.put(stated.sequence("sequence"), (int) stated.number("count"));
            }
            assertEquals(counts, DeliveryCounts.decode(one.bytes("hex"), mac));
            assertArrayEquals(one.bytes("hex"), DeliveryCounts.encode(counts, mac));
        });
    }

    @TestFactory
    Stream<DynamicTest> brokenDeliveriesAreRefused() {
        return vectors.each(
                "deliveries_invalid",
                one -> assertEquals("BAD_CURSOR", reason(() -> DeliveryCounts.decode(one.bytes("hex"), mac))));
    }

    @TestFactory
    Stream<DynamicTest> aBrokenFenceIsRefused() {
        return vectors.each(
                "fences_invalid", one -> assertEquals("BAD_FENCE", reason(() -> Fence.decode(one.bytes("hex"), mac))));
    }

    private static String reason(Runnable reading) {
        return assertThrows(WireException.class, reading::run).reason();
    }
}
