package speed.fs;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import speed.wire.Keyring;
import speed.wire.Limits;
import speed.wire.Names;

/**
 * The inbox of a node: one lane directory per sender, everything else put aside (L-1, L-20, L-21). Used by the
 * thread that holds the protocol role.
 */
public final class Inbox {
    private static final int MAX_ENTRIES = 4 * Limits.MAX_LANES;
    private static final int MAX_JUNK_PER_SCAN = 256;

    private final String root;
    private final String name;
    private final int generation;
    private final Keyring keyring;
    private final ReadBuffer buffer = new ReadBuffer();
    private final TreeSet<String> known = new TreeSet<>();
    private Quarantine quarantine;
    private volatile int junk;

    public Inbox(String root, String name, int generation, Keyring keyring) {
        this.root = root;
        this.name = name;
        this.generation = generation;
        this.keyring = keyring;
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
     * Names of the senders with a lane here; foreign things go to quarantine, a few a scan. At most max_lanes; lanes
     * known from earlier scans keep their places, so that newcomers oust nobody.
     */
    public List<String> scan() throws PosixException {
        TreeSet<String> senders = new TreeSet<>();
        List<String> foreign = new ArrayList<>();
        try (Directory inbox = Directory.open(Names.inboxDirectory(root, name))) {
            for (Directory.Name file : inbox.names(MAX_ENTRIES)) {
                if (file.isDirectory() && Names.isNode(file.name())) {
                    senders.add(file.name());
                } else if (!file.name().startsWith(Names.TEMPORARY_PREFIX) && foreign.size() < MAX_JUNK_PER_SCAN) {
                    foreign.add(file.name());
                }
            }
            foreign.forEach(file -> quarantine.take(inbox, file, "NO_LANE"));
        }
        junk += foreign.size();
        known.retainAll(senders);
        senders.removeAll(known);
        senders.stream().limit(Math.max(0, Limits.MAX_LANES - known.size())).forEach(known::add);
        return List.copyOf(known);
    }

    /** Puts a whole lane aside (L-21). */
    public void quarantine(String sender, String reason) throws PosixException {
        try (Directory inbox = Directory.open(Names.inboxDirectory(root, name))) {
            quarantine.take(inbox, sender, reason);
        }
        known.remove(sender);
    }

    /** Opens the lane of a sender for reading; LeaseLostException if this process was replaced. */
    public LaneReader lane(String sender) throws PosixException {
        Directory lane = Directory.open(Names.laneDirectory(root, name, sender));
        return LaneReader.open(lane, new LaneReader.Link(sender, name, generation, keyring), quarantine, buffer);
    }

    public void close() {
        if (quarantine != null) {
            quarantine.close();
        }
    }
}
