package speed.internal.node;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import speed.internal.core.PendingCalls;
import speed.internal.core.PendingCalls.Call;

/**
 * Nodes that left or were replaced, until those who wait for them are told. Thread-safe; {@link #tell} is for one thread
 * at a time.
 *
 * <p>Told are those who waited when the node was found gone. Who begins to wait later may wait for a successor, which
 * can publish its entry at any time.
 */
final class Departures {
    private final PendingCalls pending;
    private final BiConsumer<String, List<Call>> tell;
    private final Map<String, List<Call>> gone = new ConcurrentHashMap<>();

    /**
     * Departures of a node's peers.
     *
     * @param tell settles the given calls to a node, and ends what it asked here if it is gone
     */
    Departures(PendingCalls pending, BiConsumer<String, List<Call>> tell) {
        this.pending = pending;
        this.tell = tell;
    }

    /** A node was found gone; {@code askForScan} asks for the scan that its callers wait for. */
    void add(String name, Runnable askForScan) {
        List<Call> waiting = pending.to(name);
        askForScan.run(); // between the two: the scan finds the answers to all that are told
        gone.put(name, waiting);
    }

    /**
     * Tells those who wait, once all that the node answered is read.
     *
     * @param isScanned whether no scan is being asked for
     * @param isRead whether the lane of a node was read to its end
     */
    void tell(BooleanSupplier isScanned, Predicate<String> isRead) {
        Map<String, List<Call>> found = Map.copyOf(gone); // first: what is in it asked for its scan before
        if (!isScanned.getAsBoolean()) {
            return;
        }
        found.forEach((name, waiting) -> {
            if (isRead.test(name) && gone.remove(name, waiting)) {
                tell.accept(name, waiting);
            }
        });
    }
}
