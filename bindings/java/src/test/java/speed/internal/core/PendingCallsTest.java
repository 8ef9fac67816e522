package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import speed.errors.NodeLeftException;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.PendingCalls.RequestKey;

/** S-6, S-7: each waiting caller is completed exactly once. */
class PendingCallsTest {
    private static final RequestKey ONE = new RequestKey("one");
    private static final RequestKey TWO = new RequestKey("two");

    private final PendingCalls calls = new PendingCalls();
    private final List<Outcome> outcomes = new ArrayList<>();

    private void add(RequestKey key, long deadline, String target) {
        calls.add(new Call(key, deadline, target, outcomes::add));
    }

    @Test
    void onlyTheCalledNodeCompletesACallAndOnlyOnce() {
        add(ONE, 10, "billing");
        assertFalse(calls.complete(ONE, "mallory", Outcome.of(1)));
        assertTrue(calls.complete(ONE, "billing", Outcome.of(2)));
        assertFalse(calls.complete(ONE, "billing", Outcome.of(3)));
        assertEquals(List.of(Outcome.of(2)), outcomes);
    }

    @Test
    void callsExpireAtTheirDeadlineAndNotBefore() {
        add(ONE, 5_000_000_000L, "billing");
        add(TWO, 9_000_000_000L, "billing");
        assertEquals(List.of(), calls.expire(4_999_999_999L));
        assertEquals(
                List.of(ONE),
                calls.expire(5_000_000_000L).stream().map(Call::key).toList());
        assertEquals(9_000_000_000L, calls.nextDeadline());
        assertEquals(
                List.of(TWO),
                calls.expire(9_000_000_000L).stream().map(Call::key).toList());
        assertTrue(calls.isEmpty());
        assertEquals(Long.MAX_VALUE, calls.nextDeadline());
    }

    @Test
    void aForgottenCallIsNotCompleted() {
        add(ONE, 10, "billing");
        calls.forget(ONE);
        assertFalse(calls.complete(ONE, "billing", Outcome.of(1)));
        assertEquals(List.of(), outcomes);
    }

    @Test
    void aNodeThatLeftFailsItsCallersAndAStopFailsAll() {
        add(ONE, 10, "billing");
        add(TWO, 10, "analytics");
        NodeLeftException left = new NodeLeftException("left");
        calls.fail(calls.to("billing"), () -> left);
        assertEquals(Set.of("analytics"), calls.targets());
        calls.failAll(() -> left);
        assertEquals(0, calls.size());
        outcomes.forEach(outcome -> assertSame(left, outcome.error()));
        assertEquals(2, outcomes.size());
    }

    /** Whoever takes a call out completes it: a completion may itself stop the waiting for others. */
    @Test
    void aCallThatAnotherEndsMeanwhileIsCompletedOnce() {
        calls.add(new Call(ONE, 10, "billing", outcome -> {
            outcomes.add(outcome);
            calls.forget(TWO);
        }));
        calls.add(new Call(TWO, 10, "billing", outcome -> {
            outcomes.add(outcome);
            calls.forget(ONE);
        }));
        calls.failAll(() -> new NodeLeftException("left"));
        assertEquals(1, outcomes.size());
        assertTrue(calls.isEmpty());
    }

    @Test
    void aCallThatComesAfterAllWereEndedIsRefusedAndNotCompleted() {
        NodeLeftException closed = new NodeLeftException("closed");
        calls.failAll(() -> closed);
        assertSame(closed, assertThrows(NodeLeftException.class, () -> add(ONE, 10, "billing")));
        assertTrue(calls.isEmpty());
        assertEquals(List.of(), outcomes);
    }
}
