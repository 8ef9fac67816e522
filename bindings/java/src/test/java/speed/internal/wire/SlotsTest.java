package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;
import speed.internal.core.SlotChoice;
import speed.internal.wire.SlotPieces.SlotHead;

/** L-28, L-29: heads of slots, payloads in pieces, and which slot is taken. */
class SlotsTest {
    private static final int PATTERN = 251;

    private final Contract vectors = Contract.vectors("slots");

    @TestFactory
    Stream<DynamicTest> aHeadIsReadAndWrittenAsStated() {
        return vectors.each("heads", one -> {
            SlotHead head = SlotHead.decode(one.bytes("hex"));
            assertEquals(one.number("number"), head.number());
            assertEquals(one.number("payload_bytes"), head.payloadBytes());
            assertArrayEquals(one.bytes("key"), head.key());
            assertArrayEquals(one.bytes("hex"), head.encode());
        });
    }

    @TestFactory
    Stream<DynamicTest> anyOtherHeadIsRefused() {
        return vectors.each(
                "invalid_heads",
                one -> assertEquals(
                        "BAD_SLOT",
                        assertThrows(WireException.class, () -> SlotHead.decode(one.bytes("hex")))
                                .reason()));
    }

    @TestFactory
    Stream<DynamicTest> aSlotHoldsTheStatedPieces() {
        return vectors.each("payloads", one -> {
            for (boolean isNative : new boolean[] {Sodium.AVAILABLE, false}) {
                byte[] slot = slot(one, isNative);
                assertEquals(one.number("slot_bytes"), slot.length);
                assertEquals(one.text("slot_sha256"), HexFormat.of().formatHex(Hashes.sha256(slot)));
                assertArrayEquals(payload(one), opened(one, slot, isNative));
            }
        });
    }

    private static byte[] payload(Contract one) {
        byte[] payload = new byte[(int) one.number("payload_bytes")];
        for (int at = 0; at < payload.length; at++) {
            payload[at] = (byte) (at % PATTERN);
        }
        return payload;
    }

    private static SlotPieces pieces(Contract one, boolean isNative) {
        return new SlotPieces(one.bytes("key"), (int) one.number("payload_bytes"), isNative);
    }

    private static byte[] slot(Contract one, boolean isNative) {
        SlotPieces pieces = pieces(one, isNative);
        ByteArrayOutputStream slot = new ByteArrayOutputStream();
        Block block = new Block(SlotPieces.SEALED_BYTES);
        for (int index = 0; index < pieces.count(); index++) {
            assertEquals(pieces.offset(index), slot.size());
            slot.writeBytes(block.copy(0, pieces.seal(index, payload(one), block)));
        }
        assertEquals(pieces.slotBytes(), slot.size());
        return slot.toByteArray();
    }

    private static byte[] opened(Contract one, byte[] slot, boolean isNative) {
        SlotPieces pieces = pieces(one, isNative);
        byte[] payload = new byte[(int) one.number("payload_bytes")];
        Block block = new Block(SlotPieces.SEALED_BYTES);
        for (int index = 0; index < pieces.count(); index++) {
            block.bytes.put(0, slot, (int) pieces.offset(index), pieces.sealedBytes(index));
            assertTrue(pieces.open(index, block, new Block(Limits.SLOT_PIECE_BYTES), payload));
        }
        return payload;
    }

    /** As many bytes are read at a piece's place as it has; a file that ends before holds no such piece. */
    @TestFactory
    Stream<DynamicTest> otherBytesAreNoPiece() {
        return vectors.each("invalid_pieces", one -> {
            int index = (int) one.number("index");
            int size = index * Limits.SLOT_PIECE_BYTES + one.bytes("hex").length - Limits.TAG_BYTES;
            for (boolean isNative : new boolean[] {Sodium.AVAILABLE, false}) {
                SlotPieces pieces = new SlotPieces(one.bytes("key"), size, isNative);
                byte[] payload = new byte[size];
                assertFalse(pieces.open(index, Block.of(one.bytes("hex")), new Block(size), payload));
                assertArrayEquals(new byte[size], payload);
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> thatSlotIsTakenThatWastesLeast() {
        return vectors.each("choices", one -> {
            Map<Integer, Long> free = new HashMap<>();
            Set<Integer> used = new HashSet<>();
            for (Object slot : (List<?>) one.get("slots")) {
                List<?> known = (List<?>) slot;
                int number = ((Long) known.get(0)).intValue();
                if ((Boolean) known.get(2)) {
                    free.put(number, (Long) known.get(1));
                } else {
                    used.add(number);
                }
            }
            SlotChoice choice = SlotChoice.of(free, used, one.number("needs"), one.number("room"));
            List<Integer> removed = ((List<?>) one.get("removed"))
                    .stream().map(slot -> ((Long) slot).intValue()).toList();
            int taken = (int) one.number("slot");
            assertEquals(taken == 0 ? null : new SlotChoice(taken, one.number("file_bytes"), removed), choice);
        });
    }

    /** The cipher writes there also when the tag is wrong. */
    @Test
    void memoryThatAPieceDoesNotFitIsNeverWritten() {
        SlotPieces pieces = new SlotPieces(new byte[Limits.KEY_BYTES], 100);
        assertThrows(IndexOutOfBoundsException.class, () -> pieces.seal(0, new byte[100], new Block(115)));
        assertThrows(
                IndexOutOfBoundsException.class, () -> pieces.open(0, new Block(115), new Block(100), new byte[100]));
        assertThrows(
                IndexOutOfBoundsException.class, () -> pieces.open(0, new Block(116), new Block(99), new byte[100]));
    }
}
