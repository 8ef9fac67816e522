package speed.fs;

import java.util.List;
import java.util.Set;
import speed.wire.Fence;
import speed.wire.Keyring;
import speed.wire.LaneMac;
import speed.wire.Names;
import speed.wire.NodeId;
import speed.wire.SegmentId;

/** Fences: what a sender that lost its name writes afterwards is never accepted. */
public final class Fences {
    private static final int MAX_NODES = 1 << 20;
    /** There is no lane, nothing that could be one, or none of ours: the directory is closed to this user. */
    private static final Set<Integer> HOLDS_NONE = Set.of(
            PosixException.ENOENT, PosixException.ENOTDIR, PosixException.ELOOP, PosixException.EACCES);

    private Fences() {}

    /**
     * Ends all lanes that older generations of a sender left anywhere: a paused and replaced owner may resume and
     * append to segments it still holds open. Called by the new owner after it won its claim and before its entry
     * appears.
     */
    public static void set(String root, String source, int generation, Keyring keyring) throws PosixException {
        for (Directory.Name node : nodesIn(root)) {
            setIn(Names.laneDirectory(root, node.name(), source), generation,
                    new LaneMac(keyring, NodeId.of(source), NodeId.of(node.name())));
        }
    }

    /** Whether a receiver has yet to open a lane of a sender; one that cannot be looked into counts as such. */
    static boolean hasUnopened(String root, String source, Keyring keyring) throws PosixException {
        for (Directory.Name node : nodesIn(root)) {
            LaneMac mac = new LaneMac(keyring, NodeId.of(source), NodeId.of(node.name()));
            if (isUnopened(Names.laneDirectory(root, node.name(), source), mac)) {
                return true;
            }
        }
        return false;
    }

    /** After a power cut a cursor may be a name without its bytes. */
    private static boolean isUnopened(String path, LaneMac mac) {
        try (Directory lane = Directory.open(path)) {
            return Listing.newestCursor(lane, mac) == null;
        } catch (PosixException error) {
            return !error.is(PosixException.ENOENT) && !error.is(PosixException.ENOTDIR);
        }
    }

    private static List<Directory.Name> nodesIn(String root) throws PosixException {
        try (Directory directory = Directory.open(root)) {
            return directory.names(MAX_NODES).stream().filter(one -> Names.isNode(one.name())).toList();
        }
    }

    private static void setIn(String path, int generation, LaneMac mac) throws PosixException {
        Directory lane;
        try {
            lane = Directory.open(path);
        } catch (PosixException error) {
            if (HOLDS_NONE.contains(error.errno())) {
                return;
            }
            throw error;
        }
        try (lane) {
            SegmentId last = SegmentId.NONE;
            long size = 0;
            for (SegmentId segment : Listing.of(lane).segments()) {
                FileStatus status = segment.generation() < generation ? statusOf(lane, segment) : null;
                if (status != null && status.isRegular()) {
                    last = segment;
                    size = status.size();
                }
            }
            Fence fence = new Fence(generation, last, size);
            Posix.close(lane.replace(Names.fenceName(generation), fence.encode(mac)));
        }
    }

    /** Null when it was consumed and removed meanwhile. */
    private static FileStatus statusOf(Directory lane, SegmentId segment) throws PosixException {
        try {
            return lane.status(Names.segmentName(segment.generation(), segment.segment()));
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return null;
            }
            throw error;
        }
    }
}
