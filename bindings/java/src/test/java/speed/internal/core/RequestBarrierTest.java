package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Limits;

/** What names requests overtakes none that is still being put together (G-14). */
class RequestBarrierTest {
    private final RequestBarrier barrier = new RequestBarrier();
    private final List<String> done = new ArrayList<>();

    private boolean await(String what) {
        return barrier.await("analytics", () -> done.add(what));
    }

    private void end(Object ticket) {
        barrier.end("analytics", ticket).forEach(Runnable::run);
    }

    @Test
    void nothingWaitsWhileNoRequestIsPutTogether() {
        end(barrier.begin("analytics"));
        assertFalse(await("at once"));
        barrier.begin("billing");
        assertFalse(await("at once"));
    }

    @Test
    void itWaitsForAllRequestsThatCameBeforeItAndForNoLaterOne() {
        Object first = barrier.begin("analytics");
        Object second = barrier.begin("analytics");
        assertTrue(await("one") && await("two"));
        Object third = barrier.begin("analytics");
        end(second);
        assertEquals(List.of(), done);
        end(first);
        assertEquals(List.of("one", "two"), done);
        end(third);
        assertEquals(List.of("one", "two"), done);
    }

    @Test
    void onlySoMuchWaitsOfOneSender() {
        Object ticket = barrier.begin("analytics");
        for (int number = 0; number < Limits.MAX_DEFERRED_CONTROLS; number++) {
            assertTrue(await("one"));
        }
        assertFalse(await("too many"));
        end(ticket);
        assertEquals(Limits.MAX_DEFERRED_CONTROLS, done.size());
    }
}
