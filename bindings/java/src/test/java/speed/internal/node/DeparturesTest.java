package speed.internal.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import speed.errors.NodeLeftException;
import speed.internal.core.PendingCalls;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.RequestKey;

/** S-7: the end of a node ends the calls that waited for it, and none to its successor. */
class DeparturesTest {
    private static final RequestKey OLD = new RequestKey("to the predecessor");
    private static final RequestKey NEW = new RequestKey("to the successor");

    private final PendingCalls pending = new PendingCalls();
    private final List<Object> completed = new ArrayList<>();

    private void call(RequestKey key) {
        pending.add(new Call(key, Long.MAX_VALUE, "billing", outcome -> completed.add(key)));
    }

    private Departures departures() {
        return new Departures(
                pending, (name, waiting) -> pending.fail(waiting, () -> new NodeLeftException(name + " left")));
    }

    private void find(Departures departures) {
        departures.add("billing", () -> {});
    }

    private void tell(Departures departures) {
        departures.tell(() -> true, name -> true);
    }

    @Test
    void whoWaitedWhenTheNodeWasFoundGoneIsNotified() {
        Departures departures = departures();
        call(OLD);
        find(departures);
        tell(departures);
        assertEquals(List.of(OLD), completed);
    }

    /** A node that starts and is called right after the look is not taken for the one that was looked at. */
    @Test
    void aSuccessorThatIsCalledBetweenTheLookAndTheTellingIsWaitedFor() {
        Departures departures = departures();
        call(OLD);
        find(departures);
        call(NEW);
        tell(departures);
        assertEquals(List.of(OLD), completed);
        assertTrue(pending.isOpen(NEW));
    }

    @Test
    void nobodyIsNotifiedBeforeTheInboxIsScannedAndTheLaneIsReadToItsEnd() {
        Departures departures = departures();
        call(OLD);
        find(departures);
        departures.tell(() -> false, name -> true);
        departures.tell(() -> true, name -> false);
        assertEquals(List.of(), completed);
        tell(departures);
        assertEquals(List.of(OLD), completed);
    }

    /** The later reading has all that still wait. */
    @Test
    void aNodeThatIsFoundGoneAgainIsReportedOnce() {
        Departures departures = departures();
        call(OLD);
        find(departures);
        call(NEW);
        find(departures);
        tell(departures);
        tell(departures);
        assertEquals(2, completed.size());
        assertTrue(pending.isEmpty());
    }
}
