package speed.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import speed.fs.Cores;

/** A thread that polls looks for a core of its own (registry_spec/decisions/0033). */
class OwnCoreTest {
    private OwnCore core = new OwnCore(0);
    private long now = 1_000_000_000L;

    /** How many moves so many polls lead to that bring something. */
    private int poll(int times, boolean byTurns) {
        int moves = 0;
        for (int at = 0; at < times; at++) {
            core.took(byTurns ? 2 * OwnCore.TURN_NANOS : OwnCore.TURN_NANOS / 4);
            moves += core.hit(now) ? 1 : 0;
        }
        return moves;
    }

    private static int cores() {
        return java.lang.Runtime.getRuntime().availableProcessors();
    }

    @Test
    void aThreadLeavesItsCoreAndMayUseAsManyAsBefore() {
        int before = cores();
        assertEquals(before > 1, Cores.leaveThisCore());
        assertEquals(before, cores());
    }

    @Test
    void onlyTurnsInARowLeadToAMove() {
        for (int round = 0; round < 10; round++) {
            assertEquals(0, poll(OwnCore.PATIENCE - 1, true));
            assertEquals(0, poll(1, false));
        }
        assertEquals(1, poll(OwnCore.PATIENCE, true));
    }

    @Test
    void betweenTwoMovesIsARest() {
        for (int round = 0; round < 10; round++) {
            assertEquals(1, poll(OwnCore.PATIENCE, true));
            now += OwnCore.REST_NANOS * 9 / 10;
            assertEquals(0, poll(OwnCore.PATIENCE, true));
            now += OwnCore.REST_NANOS / 5;
        }
    }

    @Test
    void twoThatLeftAtOnceDoNotMeetForEver() {
        OwnCore one = core;
        OwnCore other = new OwnCore(1);
        int movesTogether = 0;
        for (int round = 0; round < 100; round++) {
            core = one;
            int moves = poll(OwnCore.PATIENCE, true);
            core = other;
            movesTogether += moves + poll(OwnCore.PATIENCE, true) == 2 ? 1 : 0;
            now += OwnCore.REST_NANOS / 10;
        }
        assertEquals(1, movesTogether);
    }
}
