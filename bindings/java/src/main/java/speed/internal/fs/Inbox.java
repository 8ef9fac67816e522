package speed.internal.fs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import speed.errors.SpeedException;
import speed.internal.fs.Claiming.SweepHold;
import speed.internal.fs.LaneFiles.Link;
import speed.internal.wire.Keyring;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.internal.wire.NodeIdentity;

/**
 * The inbox of a node: one lane directory per sender, everything else put aside. Used by the
 * thread that holds the protocol role.
 */
public final class Inbox {
    /** No time of a change. */
    public static final long UNSETTLED = -1;

    private static final int MAX_ENTRIES = 2 * Limits.MAX_LANES;
    private static final int MAX_JUNK_PER_SCAN = 256;

    private final String root;
    private final String name;
    private final int generation;
    private final Keyring keyring;
    private final boolean isEphemeral;
    private final int maxLanes;
    private final ReadBuffer buffer = new ReadBuffer();
    private Quarantine quarantine;
    private long lateNanos;
    private boolean canSeal = true;
    private Supplier<NodeIdentity> identity = () -> null;
    private BiPredicate<String, Integer> isLive = (sender, ofGeneration) -> false;
    private long listedAt = UNSETTLED;
    /** The change that was seen last, and since when (monotonic). */
    private long change = UNSETTLED;

    private long seen;
    private volatile int junk;

    /** The inbox of one life of a node; {@code isEphemeral}: its name will not come back. */
    public Inbox(String root, String name, int generation, Keyring keyring, boolean isEphemeral) {
        this(root, name, generation, keyring, isEphemeral, Limits.MAX_LANES);
    }

    Inbox(String root, String name, int generation, Keyring keyring, boolean isEphemeral, int maxLanes) {
        this.root = root;
        this.name = name;
        this.generation = generation;
        this.keyring = keyring;
        this.isEphemeral = isEphemeral;
        this.maxLanes = maxLanes;
    }

    /** The filesystem is remote: what one host seals another may not see in time. */
    public void neverSeal() {
        canSeal = false;
    }

    /** The identity of the node as it is now, which opens links that are bound to it; without this there is none. */
    public void ownedBy(Supplier<NodeIdentity> own) {
        identity = own;
    }

    /** How old a listing may be that the filesystem gives. */
    public void late(double seconds) {
        lateNanos = (long) (seconds * 1e9);
    }

    /** What says whether a node has a live entry of a generation; without it none has. */
    public void judgeSenders(BiPredicate<String, Integer> senderIsLive) {
        isLive = senderIsLive;
    }

    /** Makes the node's directories; RootException if something else is in their place. */
    public void prepare() throws PosixException {
        Directory.make(Names.nodeDirectory(root, name));
        Directory.make(Names.inboxDirectory(root, name));
        Directory.make(Names.quarantineDirectory(root, name));
        quarantine = new Quarantine(root, name);
    }

    /** How many foreign things were put aside. */
    public int junk() {
        return junk;
    }

    /**
     * Names of the senders with a lane here, at most max_lanes; null if none came or went since the last scan. If there
     * are more, these are the ones that are first, and then those whose lane changed last: such a listing is made again
     * each time. Foreign things go to quarantine, a few a scan.
     */
    public Set<String> scan(Predicate<String> first) throws PosixException {
        Set<String> senders = new HashSet<>();
        List<String> foreign = new ArrayList<>();
        try (Directory inbox = Directory.open(Names.inboxDirectory(root, name))) {
            long changedAt = inbox.status().modifiedNanos();
            if (changedAt == listedAt) {
                return null;
            }
            sortOut(inbox, senders, foreign);
            foreign.stream().limit(MAX_JUNK_PER_SCAN).forEach(file -> quarantine.take(inbox, file, "NO_LANE"));
            boolean isWhole = foreign.size() <= MAX_JUNK_PER_SCAN && senders.size() <= maxLanes;
            listedAt = isWhole && shows(changedAt) ? changedAt : UNSETTLED;
        }
        junk += Math.min(foreign.size(), MAX_JUNK_PER_SCAN);
        return senders.size() <= maxLanes ? senders : cut(senders, first);
    }

    /** Whether a listing that was just made shows what changed then; a network filesystem may give an older one. */
    private boolean shows(long changedAt) {
        long now = System.nanoTime();
        if (changedAt != change) {
            change = changedAt;
            seen = now;
        }
        return LaneFiles.isSettled(changedAt) && now - seen >= lateNanos;
    }

    private Set<String> cut(Set<String> senders, Predicate<String> first) {
        record Ranked(String sender, boolean isFirst, long modified) {}
        return senders.stream()
                .map(sender -> new Ranked(sender, first.test(sender), modifiedAt(sender)))
                .sorted(Comparator.comparing(Ranked::isFirst)
                        .thenComparing(Ranked::modified)
                        .reversed())
                .limit(maxLanes)
                .map(Ranked::sender)
                .collect(Collectors.toSet());
    }

    private static void sortOut(Directory inbox, Set<String> senders, List<String> foreign) throws PosixException {
        for (Directory.Name file : inbox.names(MAX_ENTRIES)) {
            if (!file.isDirectory() || !Names.isNode(file.name())) {
                if (!file.name().startsWith(Names.TEMPORARY_PREFIX)) {
                    foreign.add(file.name());
                }
            } else {
                senders.add(file.name());
            }
        }
    }

    /** When files last came to a lane or went; UNSETTLED if that is so recent that the next change may not show. */
    public long changedAt(String sender) {
        long modified = modifiedAt(sender);
        return LaneFiles.isSettled(modified) ? modified : UNSETTLED;
    }

    private long modifiedAt(String sender) {
        try {
            return Posix.status(Posix.AT_FDCWD, Names.laneDirectory(root, name, sender))
                    .modifiedNanos();
        } catch (PosixException gone) {
            return UNSETTLED;
        }
    }

    /** Opens the lane of a sender for reading; LeaseLostException if this process was replaced. */
    public LaneReader lane(String sender) throws PosixException {
        Link link = new Link(root, sender, name, generation, keyring, isEphemeral, canSeal, identity);
        return LaneReader.open(link, quarantine, buffer, ofGeneration -> isLive.test(sender, ofGeneration));
    }

    /**
     * Removes the lane of a sender that will not come back, unless files came to it or went since a time; whether it was
     * removed. It was read to the end after the sender was gone; nobody starts under that name meanwhile.
     */
    public boolean removeLane(String sender, long changedAt, Registry registry) {
        try (SweepHold hold = new SweepHold(registry, sender)) {
            if (!hold.isEphemeral() || changedAt == UNSETTLED || changedAt(sender) != changedAt) {
                return false;
            }
            String path = Names.laneDirectory(root, name, sender);
            try (Directory lane = Directory.open(path)) {
                removeFiles(lane, false);
                removeFiles(lane, true); // the last ones: without them what else lies there would be taken again
            }
            Posix.remove(Posix.AT_FDCWD, path, Posix.AT_REMOVEDIR);
            return true;
        } catch (PosixException | SpeedException another) {
            return false; // it is tried again in its next turn
        }
    }

    private static void removeFiles(Directory lane, boolean cursors) throws PosixException {
        for (Directory.Name file : lane.names(Integer.MAX_VALUE)) {
            if (Names.parseCursor(file.name()) > 0 == cursors) {
                lane.remove(file.name());
            }
        }
    }

    public void close() {
        if (quarantine != null) {
            quarantine.close();
        }
    }
}
