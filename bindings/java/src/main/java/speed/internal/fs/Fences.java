package speed.internal.fs;

import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Cursor;
import speed.internal.wire.Fence;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Names;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.Names.SlotId;
import speed.internal.wire.NodeId;

/** Fences: what a sender that lost its name writes afterwards is never accepted. */
public final class Fences {
    private static final int MAX_NODES = 1 << 20;
    /** There is no lane, nothing that could be one, or none of ours: the directory is closed to this user. */
    private static final Set<Integer> HOLDS_NONE =
            Set.of(PosixException.ENOENT, PosixException.ENOTDIR, PosixException.ELOOP, PosixException.EACCES);

    private Fences() {}

    /**
     * Ends all lanes that older generations of a sender left anywhere: a paused and replaced owner may resume and
     * append to files it still holds open. Called by the new owner after it won its claim and before its entry
     * appears.
     */
    public static void set(String root, String source, int generation, Keyring keyring) throws PosixException {
        for (Directory.Name node : nodesIn(root)) {
            setIn(
                    Names.laneDirectory(root, node.name(), source),
                    generation,
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

    /**
     * The newest generation of a name that the files it left tell of; 0 for one that left nothing. For a name whose
     * claims somebody removed: what it sent in a generation that was used would be taken for repeated.
     */
    static int generationLeft(String root, String name, Keyring keyring) throws PosixException {
        if (!isThere(Names.nodeDirectory(root, name))) {
            return 0;
        }
        int newest = 0;
        for (Directory.Name sender : namesIn(Names.inboxDirectory(root, name))) {
            Listing lane = Names.isNode(sender.name()) ? lane(Names.laneDirectory(root, name, sender.name())) : null;
            newest = lane == null ? newest : max(newest, lane.cursors(), lane.deliveries());
        }
        for (Directory.Name target : nodesIn(root)) {
            LaneMac mac = new LaneMac(keyring, NodeId.of(name), NodeId.of(target.name()));
            newest = Math.max(newest, writtenUpTo(Names.laneDirectory(root, target.name(), name), mac));
        }
        return newest;
    }

    private static boolean isThere(String path) throws PosixException {
        try {
            Posix.status(Posix.AT_FDCWD, path);
            return true;
        } catch (PosixException error) {
            if (error.saysFailed()) {
                throw error;
            }
            return false;
        }
    }

    /** By what it wrote into one lane, and by what was read there. */
    private static int writtenUpTo(String path, LaneMac mac) throws PosixException {
        Listing lane = lane(path);
        if (lane == null) {
            return 0;
        }
        int newest = max(
                0,
                lane.fences(),
                lane.laneFiles().stream().map(LaneFile::generation).toList());
        newest = max(newest, lane.slots().stream().map(SlotId::generation).toList(), List.of());
        try (Directory opened = Directory.open(path)) {
            Cursor cursor = Listing.newestCursor(opened, mac);
            return cursor == null ? newest : Math.max(newest, cursor.file().generation());
        }
    }

    private static int max(int known, List<Integer> some, List<Integer> others) {
        return Stream.of(Stream.of(known), some.stream(), others.stream())
                .flatMap(all -> all)
                .max(Integer::compare)
                .orElse(known);
    }

    /** Null where there is none, or none of ours. */
    private static Listing lane(String path) throws PosixException {
        try (Directory lane = Directory.open(path)) {
            return Listing.of(lane);
        } catch (PosixException error) {
            if (HOLDS_NONE.contains(error.errno())) {
                return null;
            }
            throw error;
        }
    }

    private static List<Directory.Name> namesIn(String path) throws PosixException {
        try (Directory directory = Directory.open(path)) {
            return directory.names(MAX_NODES);
        } catch (PosixException error) {
            if (HOLDS_NONE.contains(error.errno())) {
                return List.of();
            }
            throw error;
        }
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
            return directory.names(MAX_NODES).stream()
                    .filter(one -> Names.isNode(one.name()))
                    .toList();
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
            LaneFile last = LaneFile.NONE;
            long size = 0;
            for (LaneFile file : Listing.of(lane).laneFiles()) {
                FileStatus status = file.generation() < generation ? statusOf(lane, file) : null;
                if (status != null && status.isRegular()) {
                    last = file;
                    size = status.size();
                }
            }
            Fence fence = new Fence(generation, last, size);
            Posix.close(lane.replace(Names.fenceName(generation), fence.encode(mac)));
        }
    }

    /** Null when it was consumed and removed meanwhile. */
    private static FileStatus statusOf(Directory lane, LaneFile file) throws PosixException {
        try {
            return lane.status(Names.laneFileName(file.generation(), file.number()));
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return null;
            }
            throw error;
        }
    }
}
