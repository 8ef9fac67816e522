package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import speed.internal.core.LaneProgress.Position;
import speed.internal.core.LaneProgress.Token;
import speed.internal.wire.Limits;
import speed.internal.wire.Names.LaneFile;

/** L-19: how much of a lane is in hand. */
class LaneProgressTest {
    @Test
    void aPayloadInASlotIsAsMuchInHandAsOneInTheLane() {
        LaneProgress progress = new LaneProgress(Position.START, 0);
        Token token = null;
        for (int sequence = 1; sequence <= 2; sequence++) {
            assertFalse(progress.isFull());
            Position start = new Position(new LaneFile(1, 1), 152 * (sequence - 1));
            token = progress.dispatched(sequence, start, start.offset() + 152);
            assertFalse(token.isSlotted());
            progress.slotted(token, Limits.MAX_PAYLOAD_BYTES);
            assertTrue(token.isSlotted());
        }
        assertEquals(152 + Limits.MAX_PAYLOAD_BYTES, token.bytes());
        assertTrue(progress.isFull());
        progress.finish(token);
        assertFalse(progress.isFull());
    }
}
