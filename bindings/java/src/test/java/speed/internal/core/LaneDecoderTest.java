package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Block;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Keyring;
import speed.internal.wire.LinkOpener;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.NodeId;

/** However the bytes of a lane arrive, the same envelopes come out (L-11, L-16). */
class LaneDecoderTest {
    private static final NodeId SOURCE = NodeId.of("a");
    private static final NodeId TARGET = NodeId.of("b");
    private static final int LIMIT = 1000;

    private final Keyring ring = new Keyring(List.of(new byte[32]));
    private final Random random = new Random();
    private final long seed = System.nanoTime();

    @Test
    void everySplitOfADamagedLaneDecodesEqually() {
        System.out.println("seed " + seed);
        random.setSeed(seed);
        for (int round = 0; round < 60; round++) {
            Block lane = new Block(20_000);
            int length = fill(lane);
            assertEquals(sequences(lane, length, length), sequences(lane, length, 1 + random.nextInt(400)));
        }
    }

    /** Envelopes, with a flipped bit or rubbish here and there. */
    private int fill(Block lane) {
        LinkSealer sealer = new LinkSealer(ring, SOURCE, TARGET, 1, random::nextBytes);
        int at = 0;
        for (int counter = 1; counter <= 20; counter++) {
            int bytes = sealer.seal(lane, at, EnvelopeType.MESSAGE, 0, counter, 1, new byte[random.nextInt(300)]);
            int kind = random.nextInt(6);
            if (kind == 0) {
                int place = at + random.nextInt(bytes);
                lane.bytes.put(place, (byte) (lane.bytes.get(place) ^ 1 << random.nextInt(8)));
            }
            at += bytes;
            if (kind == 1) {
                byte[] rubbish = new byte[random.nextInt(200)];
                random.nextBytes(rubbish);
                lane.bytes.put(at, rubbish);
                at += rubbish.length;
            }
        }
        return at;
    }

    /** The sequences that come out when so many bytes arrive at a time. */
    private List<Long> sequences(Block lane, int length, int step) {
        LinkOpener opener = new LinkOpener(ring, SOURCE, TARGET);
        LaneDecoder decoder = new LaneDecoder(
                SOURCE, TARGET, (header, data, at) -> opener.open(header, data, at, new Block(header.payloadBytes())));
        List<Long> found = new ArrayList<>();
        int consumed = 0;
        for (int arrived = Math.min(step, length); ; arrived = Math.min(arrived + step, length)) {
            boolean last = arrived == length;
            LaneDecoder.Scan scan;
            do {
                Block window = Block.of(lane.copy(consumed, Math.max(1, arrived - consumed)));
                scan = decoder.scan(new LaneDecoder.Window(window, arrived - consumed, consumed, 1, last, last), LIMIT);
                scan.items().forEach(item -> {
                    if (item instanceof LaneDecoder.Opened opened) {
                        found.add(opened.header().sequence());
                    }
                });
                consumed += scan.consumed();
            } while (scan.more());
            if (last) {
                return found;
            }
        }
    }
}
