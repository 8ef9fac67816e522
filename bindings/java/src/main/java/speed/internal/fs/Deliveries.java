package speed.internal.fs;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import speed.internal.core.Counters;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.wire.Cursor;
import speed.internal.wire.DeliveryCounts;

/**
 * How often the messages of a lane that came again were begun, kept where the next process finds it. Not
 * thread-safe: the lane's lock guards it.
 */
final class Deliveries {
    private final LaneFiles files;
    private final LaneCounts counts;
    private final int generation;
    private final Map<Long, Integer> begun;
    private boolean written;

    /** The generation is the receiver's; the cursor tells what is finished. */
    Deliveries(LaneFiles files, LaneCounts counts, int generation, Cursor cursor) throws PosixException {
        this.files = files;
        this.counts = counts;
        this.generation = generation;
        begun = new HashMap<>(newest());
        Set<Long> unfinished = new HashSet<>();
        cursor.unfinished().forEach(one -> unfinished.add(one.sequence()));
        begun.keySet()
                .removeIf(sequence ->
                        Long.compareUnsigned(sequence, cursor.lastSequence()) <= 0 && !unfinished.contains(sequence));
        written = files.listing().deliveries().contains(generation);
    }

    private Map<Long, Integer> newest() throws PosixException {
        for (int former : files.listing().deliveries()) {
            if (former <= generation) {
                Map<Long, Integer> found = files.readDeliveries(former);
                if (found != null) {
                    return found;
                }
                counts.count(Counters.DELIVERIES_DAMAGED);
            }
        }
        return Map.of();
    }

    /** How often a message has been begun, this time included; a failure to keep it is counted. */
    int begin(long sequence) {
        int count = begun.getOrDefault(sequence, 1) + 1;
        if (begun.containsKey(sequence) || begun.size() < DeliveryCounts.MOST) {
            begun.put(sequence, count);
            write();
        }
        return count;
    }

    /** A message is done with. */
    void finish(long sequence) {
        if (begun.remove(sequence) != null) {
            write();
        }
    }

    /** What is counted, under the key that is the first one now. */
    void rewrite() {
        if (!begun.isEmpty()) {
            write();
        }
    }

    private void write() {
        try {
            if (begun.isEmpty()) {
                files.removeDeliveries(generation);
                written = false;
                return;
            }
            files.writeDeliveries(generation, begun);
            if (!written) {
                written = true;
                files.listing().deliveries().stream()
                        .filter(older -> older < generation)
                        .forEach(files::removeDeliveries);
            }
        } catch (PosixException error) {
            counts.count(Counters.DELIVERIES_FAILED);
        }
    }
}
