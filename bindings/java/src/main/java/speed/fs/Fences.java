package speed.fs;

import java.util.List;
import speed.wire.Fence;
import speed.wire.Keyring;
import speed.wire.LaneMac;
import speed.wire.Names;
import speed.wire.NodeId;
import speed.wire.SegmentId;

/** Fences: what a sender that lost its name writes afterwards is never accepted (L-18). */
public final class Fences {
    private static final int MAX_NODES = 1 << 20;

    private Fences() {}

    /**
     * Ends all lanes that older generations of a sender left anywhere: a paused and replaced owner may resume and
     * append to segments it still holds open. Called by the new owner after it won its claim and before its entry
     * appears.
     */
    public static void set(String root, String source, int generation, Keyring keyring) throws PosixException {
        List<Directory.Name> nodes;
        try (Directory directory = Directory.open(root)) {
            nodes = directory.names(MAX_NODES);
        }
        for (Directory.Name node : nodes) {
            if (Names.isNode(node.name())) {
                setIn(Names.laneDirectory(root, node.name(), source), generation,
                        new LaneMac(keyring.laneKeys(NodeId.of(source), NodeId.of(node.name()))));
            }
        }
    }

    private static void setIn(String path, int generation, LaneMac mac) throws PosixException {
        Directory lane;
        try {
            lane = Directory.open(path);
        } catch (PosixException none) {
            return; // no lane there, or nothing that could be one
        }
        try (lane) {
            SegmentId last = SegmentId.NONE;
            for (SegmentId segment : Listing.of(lane).segments()) {
                if (segment.generation() < generation && isRegular(lane, segment)) {
                    last = segment;
                }
            }
            Fence fence = new Fence(generation, last, sizeOf(lane, last));
            Posix.close(lane.replace(Names.fenceName(generation), fence.encode(mac)));
        }
    }

    private static boolean isRegular(Directory lane, SegmentId segment) {
        try {
            return lane.status(Names.segmentName(segment.generation(), segment.segment())).isRegular();
        } catch (PosixException gone) {
            return false;
        }
    }

    private static long sizeOf(Directory lane, SegmentId segment) {
        try {
            return lane.status(Names.segmentName(segment.generation(), segment.segment())).size();
        } catch (PosixException gone) {
            return 0;
        }
    }
}
