package speed.internal.engine.lane;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Predicate;
import speed.errors.SpeedException;
import speed.internal.core.Counters;
import speed.internal.core.LeastRecentlyUsed;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.Introspection;
import speed.internal.fs.Inbox;
import speed.internal.fs.PosixException;
import speed.internal.fs.Sweep;
import speed.internal.wire.Keyring;
import speed.internal.wire.Limits;
import speed.internal.wire.NodeId;

/**
 * All lanes of an inbox, by the id that their sender rings with: which are known, which hold files open, and which are
 * looked at next. For the thread that reads; anybody may ask for the numbers.
 *
 * <p>A lane that was read to its end, and whose sender is gone, costs a name and a time; one that holds files open goes
 * to rest when others need them.
 */
public final class InboundLanes implements Introspection.Lanes {
    private static final Log LOG = new Log("speed.protocol");
    private static final long GRACE_NANOS = (long) (Limits.UNGRANTED_LANE_GRACE_SECONDS * 1e9);

    private final Context context;
    private final Inbox inbox;
    private final Predicate<String> mayRead;
    private final Consumer<NodeId> resume;
    private final Map<NodeId, String> names = new ConcurrentHashMap<>();
    private final Map<NodeId, InboundLane> lanes = new ConcurrentHashMap<>();
    /** Lanes of senders that are gone, read to the end: when they were changed last. */
    private final Map<NodeId, Long> passed = new HashMap<>();

    private final LeastRecentlyUsed<NodeId> awake;
    private Keyring.Keys keys;
    /** Who is looked at next; whoever comes new goes first. */
    private final Deque<NodeId> turns = new ArrayDeque<>();
    /** Who rang, and is not known yet. */
    private final Set<NodeId> sought = new HashSet<>();
    /** Whose senders this scan looks at: they may be gone. */
    private final Set<NodeId> doubted = new HashSet<>();
    /** The newest claim of each name, listed at most once in a scan. */
    private Map<String, Integer> claims;
    /** What failed: the next scan opens it again. */
    private final Set<NodeId> failed = new LinkedHashSet<>();
    /** What an earlier process left, while it waits for a grant; null before the first listing. */
    private Set<NodeId> held;

    private long heldUntil;
    private final Map<String, Object> closedCounts = new HashMap<>();

    public InboundLanes(
            Context context, Inbox inbox, Predicate<String> mayRead, Consumer<NodeId> resume, int mostAwake) {
        this.context = context;
        this.inbox = inbox;
        this.mayRead = mayRead;
        this.resume = resume;
        awake = new LeastRecentlyUsed<>(mostAwake);
        keys = context.registry.keyring().now();
    }

    // --- which to read ---

    /** Whether some of those who rang are to be looked for by a scan: they are not known yet. */
    public boolean seek(Collection<NodeId> rung) {
        rung.stream()
                .filter(source -> !names.containsKey(source) && !source.equals(context.id))
                .forEach(sought::add);
        return !sought.isEmpty();
    }

    /** The lane of whoever rang; null if it is not known yet, waits for a grant, or cannot be opened. */
    public InboundLane of(NodeId source) {
        InboundLane lane = lanes.get(source);
        return lane != null ? lane : open(source);
    }

    /** Knows the senders that have a lane; what an earlier process found waits for its grants. */
    public void list(long now) throws PosixException {
        Set<String> found = inbox.scan(this::isWanted);
        sought.clear();
        if (found != null) {
            know(found);
        }
        if (held == null) {
            held = new HashSet<>(names.keySet());
            held.removeIf(source -> mayRead.test(names.get(source)));
            heldUntil = now + GRACE_NANOS;
        }
        release(now);
    }

    /** Whether a sender is listed though there are too many: it rang, or its lane is in use. */
    private boolean isWanted(String name) {
        NodeId source = NodeId.of(name);
        return sought.contains(source) || lanes.containsKey(source);
    }

    private void know(Set<String> found) {
        names.values().retainAll(found);
        Set<String> known = new HashSet<>(names.values());
        for (String name : found) {
            if (!known.contains(name)) {
                NodeId source = NodeId.of(name);
                names.put(source, name);
                turns.addFirst(source);
            }
        }
        passed.keySet().retainAll(names.keySet());
        lanes.values().stream().filter(lane -> !names.containsKey(lane.id)).forEach(this::abandon);
    }

    /** What was granted meanwhile, or waited long enough, is looked at next. */
    private void release(long now) {
        for (Iterator<NodeId> each = held.iterator(); each.hasNext(); ) {
            NodeId source = each.next();
            String name = names.get(source);
            if (name == null || now - heldUntil >= 0 || mayRead.test(name)) {
                each.remove();
                turns.addFirst(source);
            }
        }
    }

    /**
     * Reads what a scan reads: those that rang, those that hold files open, those that failed, and of the others some in
     * turn, or all.
     */
    public void due(Collection<NodeId> rung, boolean everything, Consumer<InboundLane> read) {
        Set<NodeId> sources = new LinkedHashSet<>(rung);
        awake.forEach(sources::add);
        sources.addAll(failed);
        failed.clear();
        claims = null;
        doubted.clear();
        doubted.addAll(haveKeysChanged() || everything ? names.keySet() : nextTurns());
        sources.addAll(doubted);
        for (NodeId source : sources) { // one after the other: each may need the files of one before it
            InboundLane lane = rung.contains(source) || !isPassed(source) ? of(source) : null;
            if (lane != null) {
                lookAtSender(lane);
                read.accept(lane);
            }
        }
    }

    /** Before its lane is read: what a sender wrote just before its end is not passed over. */
    private void lookAtSender(InboundLane lane) {
        if (doubted.contains(lane.id)) {
            lane.senderIsGone = context.registry.live(lane.source) == null;
            lane.changedAt = lane.senderIsGone ? inbox.changedAt(lane.source) : Inbox.UNSETTLED;
        }
    }

    /** Then no lane may keep a cursor under a key that will be retired: each is looked at. */
    private boolean haveKeysChanged() {
        Keyring.Keys before = keys;
        keys = context.registry.keyring().now();
        if (keys == before) {
            return false;
        }
        passed.clear();
        return true;
    }

    private List<NodeId> nextTurns() {
        if (turns.isEmpty()) {
            turns.addAll(names.keySet());
        }
        List<NodeId> next = new ArrayList<>();
        while (next.size() < Limits.LANES_AT_REST_A_SCAN && !turns.isEmpty()) {
            next.add(turns.removeFirst());
        }
        return next;
    }

    /**
     * Whether a lane was read to its end, and nothing came or went since. A sender that is live again may go on in the
     * segment that it had, which does not show in the directory.
     */
    private boolean isPassed(NodeId source) {
        Long changedAt = passed.get(source);
        String name = names.get(source);
        return changedAt != null && inbox.changedAt(name) == changedAt && context.registry.live(name) == null;
    }

    private InboundLane open(NodeId source) {
        String name = names.get(source);
        if (name == null || isHeld(source, name)) {
            return null;
        }
        try {
            InboundLane lane = new InboundLane(name, inbox.lane(name), resume);
            passed.remove(source);
            lanes.put(source, lane);
            return lane;
        } catch (PosixException | SpeedException error) {
            failed.add(source);
            context.stats.count(Counters.LANES_UNREADABLE);
            LOG.warn("lane of {} cannot be read: {}", name, error.getMessage());
            return null;
        }
    }

    private boolean isHeld(NodeId source, String name) {
        return held != null && held.contains(source) && !mayRead.test(name);
    }

    // --- what holds files open ---

    /** It had something: it holds its files open, and another one may have to rest, or to go if its sender did. */
    public void used(InboundLane lane) {
        for (NodeId source : awake.use(lane.id)) {
            InboundLane other = lanes.get(source);
            if (other != null && other.senderIsGone && other.isRead()) {
                letGo(other);
            } else if (other != null) {
                other.rest();
            }
        }
    }

    /** It had nothing: unless it was used of late it holds nothing open, and a scan lets go of it if its sender is gone. */
    public void idle(InboundLane lane, boolean scan) {
        if (!awake.contains(lane.id)) {
            lane.rest();
        }
        if (!scan || !doubted.contains(lane.id) || !lane.senderIsGone || !lane.isRead()) {
            return;
        }
        if (lane.changedAt == Inbox.UNSETTLED) {
            turns.addFirst(lane.id); // the next scan can tell
        } else if (lane.changedAt == inbox.changedAt(lane.source)) {
            end(lane);
        }
    }

    /** One whose sender will not come back is removed. */
    private void end(InboundLane lane) {
        try {
            if (!mayBeEphemeral(lane.source)) {
                passed.put(lane.id, lane.changedAt);
                letGo(lane);
            } else if (inbox.removeLane(lane.source, lane.changedAt, context.registry)) {
                abandon(lane);
                names.remove(lane.id);
                context.laneRemoved(lane.source);
            }
        } catch (PosixException unclear) {
            // its next turn looks again
        }
    }

    private boolean mayBeEphemeral(String source) throws PosixException {
        if (claims == null) {
            claims = Sweep.newestClaims(context.registry);
        }
        return Sweep.mayBeEphemeral(context.registry, source, claims.getOrDefault(source, 0));
    }

    private void letGo(InboundLane lane) {
        lanes.remove(lane.id);
        awake.rest(lane.id);
        lane.close();
        remember(lane);
    }

    /** Closes a lane in disorder; the next scan opens it at its last commit. */
    public void giveUp(InboundLane lane) {
        context.stats.count(Counters.LANES_FAILED);
        abandon(lane);
        failed.add(lane.id);
    }

    private void abandon(InboundLane lane) {
        lanes.remove(lane.id);
        awake.rest(lane.id);
        remember(lane);
        lane.abandon();
    }

    private void remember(InboundLane lane) {
        synchronized (closedCounts) {
            lane.reader.counts().addTo(closedCounts);
        }
    }

    // --- the end, and the numbers ---

    /** Commits and releases all. */
    public void close() {
        Collection<InboundLane> open = lanes.values();
        open.forEach(InboundLane::close);
        open.clear();
    }

    @Override
    public int openLanes() {
        return names.size();
    }

    @Override
    public void addCounts(Map<String, Object> total) {
        synchronized (closedCounts) {
            closedCounts.forEach(total::put);
        }
        lanes.values().forEach(lane -> lane.reader.counts().addTo(total));
        if (inbox.junk() > 0) {
            total.merge(Counters.FOREIGN_FILES, (long) inbox.junk(), (old, more) -> (Long) old + (Long) more);
        }
    }
}
