package speed.internal.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import speed.errors.LeaseLostException;
import speed.errors.NodeClosedException;
import speed.internal.engine.NodeState.Phase;

/** A node's life goes forward, and ends once. */
class NodeStateTest {
    private final NodeState state = new NodeState();

    @Test
    void aNodeStartsServesLeavesAndEnds() {
        assertEquals(Phase.STARTING, state.phase());
        assertTrue(state.open());
        assertTrue(state.leave());
        assertTrue(state.isOver());
        assertFalse(state.hasEnded());
        assertEquals(Phase.LEAVING, state.end(() -> new NodeClosedException("closed")));
        assertTrue(state.hasEnded());
    }

    @Test
    void whoClosesSecondSeesThatItLeavesAlready() {
        state.open();
        assertTrue(state.leave());
        assertFalse(state.leave());
    }

    @Test
    void aNodeThatLostItsNameWhileItStartedNeverServes() {
        assertEquals(Phase.STARTING, state.end(() -> new LeaseLostException("lost")));
        assertFalse(state.open());
        assertFalse(state.leave());
        assertThrows(LeaseLostException.class, state::checkOpen);
    }

    @Test
    void theFirstReasonStaysAndIsANewExceptionForEachWhoAsks() {
        state.open();
        state.end(() -> new LeaseLostException("lost"));
        assertEquals(Phase.ENDED, state.end(() -> new NodeClosedException("closed")));
        assertEquals("LEASE_LOST", state.failure().code());
        assertNotSame(state.failure(), state.failure());
    }

    @Test
    void aWaitEndsWithTheNode() {
        assertFalse(state.awaitEnd(1));
        state.end(() -> new NodeClosedException("closed"));
        assertTrue(state.awaitEnd(Long.MAX_VALUE));
    }

    @Test
    void aNodeThatHasNotOpenedCannotLeave() {
        assertFalse(state.leave());
        assertEquals(Phase.STARTING, state.phase());
    }
}
