package speed.internal.fs;

import java.util.ArrayList;
import java.util.List;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress.Position;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.wire.Fence;
import speed.internal.wire.Names.LaneFile;

/** The fences ahead of a lane's position: how much of what was read counts. Not thread-safe. */
final class KnownFences {
    private final LaneFiles files;
    private final LaneCounts counts;
    private List<Fence> fences = new ArrayList<>();
    private LaneFile fenced;

    KnownFences(LaneFiles files, LaneCounts counts) {
        this.files = files;
        this.counts = counts;
    }

    /**
     * After a listing: knows all fences ahead of the position, and removes those that no crash leads back before.
     *
     * @param committed the sender's generation at the committed position
     */
    void look(int positionGeneration, int committed) throws PosixException {
        List<Fence> ahead = new ArrayList<>();
        for (int generation : files.listing().fences()) {
            if (generation <= positionGeneration) {
                if (generation <= committed) {
                    files.removeFence(generation);
                }
                continue;
            }
            Fence fence = known(generation);
            if (fence == null) {
                counts.count(Counters.FENCES_DAMAGED);
            } else {
                ahead.add(fence);
            }
        }
        fences = ahead;
    }

    private Fence known(int generation) throws PosixException {
        for (Fence fence : fences) {
            if (fence.newGeneration() == generation) {
                return fence;
            }
        }
        return files.readFence(generation);
    }

    /** How many of the bytes at a position were written before the sender lost its name. */
    int visible(Position position, int length) {
        LaneFile here = position.file();
        long visible = length;
        for (Fence fence : fences) {
            int place = here.compareTo(fence.last());
            if (fence.newGeneration() > here.generation() && place >= 0) {
                long allowed = place == 0 ? fence.size() - position.offset() : 0;
                visible = Math.min(visible, Math.max(0, allowed));
            }
        }
        if (visible < length && !here.equals(fenced)) {
            fenced = here;
            counts.count(Counters.REJECTED_BEHIND_FENCE);
        }
        return (int) visible;
    }
}
