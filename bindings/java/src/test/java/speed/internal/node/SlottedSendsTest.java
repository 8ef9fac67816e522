package speed.internal.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.StorageException;
import speed.internal.engine.link.Envelopes;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.fs.LaneWriter;
import speed.internal.fs.SlotWriter;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Limits;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.NodeId;

/** L-29: what a link sends in slots, and what in the lane itself. */
class SlottedSendsTest {
    private static final NodeId SOURCE = NodeId.of("analytics");
    private static final NodeId TARGET = NodeId.of("billing");
    private static final byte[] LARGE = new byte[SlotWriter.LEAST_BYTES];
    private static final byte[] SMALL = new byte[SlotWriter.LEAST_BYTES - 1];
    private static final int HEAD_BYTES = Header.OVERHEAD + Limits.SLOT_HEAD_BYTES;

    @TempDir
    Path root;

    private final Keyring ring = new Keyring(List.of(new byte[Limits.KEY_BYTES]));
    private final List<List<Long>> sizesWhenRung = new ArrayList<>();
    private Runnable whenRung = () -> sizesWhenRung.add(sizes());
    private Envelopes envelopes;

    @BeforeEach
    void prepare() throws IOException {
        Files.createDirectories(root.resolve("billing/inbox"));
        LaneWriter writer = new LaneWriter(
                root.toString(),
                "analytics",
                "billing",
                1,
                new LaneMac(ring, SOURCE, TARGET),
                new LaneWriter.WriteOptions(1 << 26, false, false));
        LinkSealer sealer = new LinkSealer(ring, SOURCE, TARGET, 1, nonces -> {});
        envelopes = new Envelopes(1, sealer, writer, key -> {}, () -> whenRung.run(), () -> false);
        envelopes.useSlots(true);
    }

    private Stream<Path> files() {
        try {
            return Files.list(root.resolve("billing/inbox/analytics")).sorted();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** Those of segment and slots. */
    private List<Long> sizes() {
        return files().map(file -> file.toFile().length()).toList();
    }

    private long send(EnvelopeType type, byte[]... payloads) {
        return envelopes.append(new Load(type, 0, List.of(payloads), Long.MAX_VALUE), sequence -> {});
    }

    private static long slotBytes() {
        return LARGE.length + (long) LARGE.length / Limits.SLOT_PIECE_BYTES * Limits.TAG_BYTES;
    }

    @Test
    void theReceiverIsRungBeforeThePiecesAreWritten() throws IOException {
        whenRung = () -> {
            sizesWhenRung.add(sizes());
            assertTrue(files().anyMatch(SlottedSendsTest::isBlank));
        };
        send(EnvelopeType.MESSAGE, LARGE);
        assertEquals(List.of(List.of((long) HEAD_BYTES, slotBytes())), sizesWhenRung);
        assertTrue(files().noneMatch(SlottedSendsTest::isBlank));
    }

    private static boolean isBlank(Path file) {
        try {
            for (byte one : Files.readAllBytes(file)) {
                if (one != 0) {
                    return false;
                }
            }
            return true;
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    @Test
    void aBatchKeepsItsOrder() {
        long last = send(EnvelopeType.MESSAGE, SMALL, SMALL, LARGE, SMALL, LARGE);
        assertEquals(Sequence.of(1, 5), last);
        long two = 2L * (Header.OVERHEAD + SMALL.length);
        long four = two + HEAD_BYTES + Header.OVERHEAD + SMALL.length + HEAD_BYTES;
        assertEquals(two + HEAD_BYTES, sizesWhenRung.get(0).get(0));
        assertEquals(List.of(four, slotBytes(), slotBytes()), sizesWhenRung.get(1));
    }

    @Test
    void whoDoesNotTakeSlotsGetsAllInTheLane() {
        envelopes.useSlots(false);
        send(EnvelopeType.MESSAGE, LARGE);
        assertEquals(List.of((long) Header.OVERHEAD + LARGE.length), sizes());
    }

    @Test
    void whatMayNotCarryTheFlagLiesInTheLane() {
        send(EnvelopeType.DISCOVERY, LARGE);
        assertEquals(List.of((long) Header.OVERHEAD + LARGE.length), sizes());
    }

    @Test
    void withoutAFreeSlotAPayloadLiesInTheLane() {
        byte[][] batch = new byte[Limits.MAX_SLOTS + 2][];
        Arrays.fill(batch, LARGE);
        send(EnvelopeType.EVENT, batch);
        long inLane = 2L * (Header.OVERHEAD + LARGE.length) + Limits.MAX_SLOTS * HEAD_BYTES;
        assertEquals(inLane, sizes().get(0));
        assertEquals(1 + Limits.MAX_SLOTS, sizes().size());
    }

    @Test
    void aBatchThatEndsInTheMiddleTellsHowMuchIsThereAndIsRungFor() {
        whenRung = () -> {
            sizesWhenRung.add(List.of());
            removeLane();
        };
        StorageException error = assertThrows(StorageException.class, () -> send(EnvelopeType.MESSAGE, LARGE, LARGE));
        assertEquals(1, error.envelopesWritten());
        assertEquals(1, envelopes.counter());
        assertEquals(2, sizesWhenRung.size());
    }

    private void removeLane() {
        Path lane = root.resolve("billing/inbox/analytics");
        if (Files.exists(lane)) {
            files().forEach(file -> file.toFile().delete());
            lane.toFile().delete();
        }
    }
}
