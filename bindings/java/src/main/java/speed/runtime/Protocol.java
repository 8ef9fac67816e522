package speed.runtime;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import speed.errors.SpeedException;
import speed.errors.WireException;
import speed.fs.Bell;
import speed.fs.Cores;
import speed.fs.Inbox;
import speed.fs.LaneReader;
import speed.fs.PosixException;
import speed.fs.Received;
import speed.fs.Waker;
import speed.wire.Limits;
import speed.wire.NodeId;

/**
 * The protocol role: wait on the bell, read lanes, check, dispatch (L-8 to L-21). Owns bell, inbox and inbound lanes.
 * The role is held by one thread at a time ({@link WorkerPool}); {@link #step} is everything its holder does once.
 */
final class Protocol implements Introspection.Lanes {
    private static final Logger LOG = LoggerFactory.getLogger("speed.protocol");
    /** Bounds per lane and wake-up: no lane starves the others (L-19). */
    private static final int READ_ENVELOPES = 64;
    private static final int READ_BYTES = 4 << 20;
    private static final long SCAN_NANOS = (long) (Limits.FULL_SCAN_SECONDS * 1e9);
    private static final long GRACE_NANOS = (long) (Limits.UNGRANTED_LANE_GRACE_SECONDS * 1e9);
    private static final long SHORTEST_POLL_NANOS = 500_000;
    private static final long LONGEST_POLL_NANOS = 20_000_000;
    private static final long NOW = Long.MIN_VALUE;

    private final Context context;
    private final Bell bell;
    private final Waker waker;
    private final Inbox inbox;
    private final Dispatch dispatch;
    private final Spin spin = new Spin();
    private final OwnCore core = new OwnCore(ProcessHandle.current().pid());
    private final Map<NodeId, InboundLane> lanes = new ConcurrentHashMap<>();
    private final Map<String, Long> ungranted = new HashMap<>();
    private final Map<String, Object> closedCounts = new HashMap<>();
    private final Set<String> departed = ConcurrentHashMap.newKeySet();
    private long pollNanos = SHORTEST_POLL_NANOS;
    private volatile long nextScan = NOW;
    private volatile long waitsUntil = Long.MAX_VALUE;
    private volatile boolean accepting = true;

    /** A protocol; without a bell lanes are polled (L-22). */
    Protocol(Context context, Bell bell, Inbox inbox, Dispatch dispatch) throws PosixException {
        this.context = context;
        this.bell = bell;
        this.inbox = inbox;
        this.dispatch = dispatch;
        waker = bell == null ? null : new Waker(bell);
    }

    // --- what other threads say ---

    void wake() {
        if (bell != null) {
            bell.wake();
        }
    }

    /** Has a new deadline noticed, if the present wait could outlast it. */
    void heed(long deadline) {
        if (deadline < waitsUntil) {
            wake();
        }
    }

    /** Scans the whole inbox soon: a grant may have opened a lane that waits. */
    void lookAgain() {
        nextScan = NOW;
        wake();
    }

    /** Learns at once when the reader of a link's bell dies. */
    void watchReader(OutgoingLink link) {
        if (waker != null) {
            waker.watch(link.ringer, link.target);
        }
    }

    /** A node is gone: what it already answered is read first, then those who still wait are told. */
    void nodeLeft(String name) {
        nextScan = NOW; // a scan that begins from here on finds all that it sent
        departed.add(name);
        wake();
    }

    /** While the node leaves, lanes stay unread; answers to others still go out. */
    void stopAccepting() {
        accepting = false;
    }

    // --- the role ---

    /** Does what there is to do; with {@code wait} stays until there is something. The caller holds the role. */
    void step(boolean wait) {
        try {
            Set<NodeId> rung = await(wait);
            long now = System.nanoTime();
            if (rung == null || now >= nextScan) {
                scan(now);
            } else {
                rung.forEach(source -> drainRung(source, now));
            }
            failDeparted();
            dispatch.expire(now);
        } catch (PosixException | RuntimeException | Error failure) {
            context.stats.count("protocol_failures");
            lookAgain(); // the rings are taken: what they meant must be found without them
            throw failure instanceof RuntimeException known ? known : new IllegalStateException(failure);
        }
    }

    private void drainRung(NodeId source, long now) {
        InboundLane lane = lanes.get(source);
        if (lane != null) {
            drain(lane, now, false);
        } else if (!source.equals(context.id)) {
            nextScan = NOW;
        }
    }

    /**
     * Tells those who wait for nodes that left before the present scan, once their lanes were read to the end. Where
     * one stands still (L-19) they wait like all behind it; a successor answers what waits (S-7).
     */
    private void failDeparted() {
        if (nextScan == NOW || departed.isEmpty()) {
            return;
        }
        for (String name : departed) {
            InboundLane lane = lanes.get(NodeId.of(name));
            if ((lane == null || !lane.mayHoldMore()) && departed.remove(name) && context.registry.isGone(name)) {
                dispatch.nodeDied(name);
            }
        }
    }

    /** Source ids that rang; empty after a timer; null if everything must be looked at. */
    private Set<NodeId> await(boolean wait) throws PosixException {
        if (bell == null) {
            poll(wait);
            return null;
        }
        Set<NodeId> rung = bell.drain();
        if (rung == null || !rung.isEmpty() || !wait) {
            return rung;
        }
        waitsUntil = Long.MAX_VALUE; // a deadline that comes while the next lines run wakes at once
        waitsUntil = Math.min(nextScan, dispatch.nextDeadline());
        boolean spun = spin.isWorthIt();
        if (spun) {
            rung = spin(Math.min(System.nanoTime() + Spin.NANOS, waitsUntil));
        }
        if (rung != null && rung.isEmpty()) {
            long began = System.nanoTime();
            block(began);
            rung = bell.drain();
            boolean early = System.nanoTime() - began < Spin.NANOS;
            if (waitsUntil > began) {
                spin.learn(early && (rung == null || !rung.isEmpty()));
            }
        } else {
            spin.learn(true);
        }
        return rung;
    }

    private Set<NodeId> spin(long until) throws PosixException {
        long now = System.nanoTime();
        Set<NodeId> rung = Set.of();
        while (rung != null && rung.isEmpty() && now < until) {
            now = core.giveTurn();
            rung = bell.drain();
        }
        if ((rung == null || !rung.isEmpty()) && core.hit(now)) {
            Cores.leaveThisCore();
        }
        return rung;
    }

    private void block(long now) {
        if (waitsUntil > now) {
            long milliseconds = Math.min((waitsUntil - now + 999_999) / 1_000_000, 60_000);
            waker.await((int) milliseconds, this::readerDied);
        }
    }

    /** No bell here: look at all lanes, often after activity, seldom when idle (L-22). */
    private void poll(boolean wait) {
        if (wait) {
            context.awaitStop(pollNanos);
            pollNanos = Math.min(pollNanos + pollNanos / 2, LONGEST_POLL_NANOS);
        }
    }

    private void readerDied(String target) {
        if (context.registry.isGone(target)) {
            departed.add(target);
            nextScan = NOW;
        }
    }

    // --- lanes ---

    private void scan(long now) throws PosixException {
        nextScan = now + SCAN_NANOS;
        for (String source : inbox.scan()) {
            if (!lanes.containsKey(NodeId.of(source))) {
                openLane(source, now);
            }
        }
        for (InboundLane lane : lanes.values()) {
            drain(lane, now, true);
        }
    }

    /**
     * Opens the lane of a sender that may write here; puts others aside after a time of grace (L-21), which lets a
     * restarted program grant what it granted before.
     */
    private void openLane(String source, long now) throws PosixException {
        if (dispatch.mayRead(source)) {
            ungranted.remove(source);
            try {
                lanes.put(NodeId.of(source), new InboundLane(source, inbox.lane(source), this::resume));
            } catch (PosixException | SpeedException error) {
                context.stats.count("lanes_unreadable");
                LOG.warn("lane of {} cannot be read: {}", source, error.getMessage());
            }
        } else if (now - ungranted.computeIfAbsent(source, any -> now) > GRACE_NANOS) {
            ungranted.remove(source);
            inbox.quarantine(source, "the sender has no grant");
            context.stats.count("lanes_quarantined");
        }
    }

    /** Has a lane read again that was left with something in it. */
    private void resume(NodeId lane) {
        if (bell != null) {
            bell.wake(lane);
        }
    }

    private void drain(InboundLane lane, long now, boolean scan) {
        if (!accepting || context.registration.isOver()) {
            return; // a successor may read already
        }
        try {
            LaneReader.Batch batch = lane.read(READ_ENVELOPES, READ_BYTES, now, scan);
            for (Received envelope : batch.received()) {
                deliver(lane, envelope);
            }
            if (!batch.received().isEmpty()) {
                pollNanos = SHORTEST_POLL_NANOS;
            }
            if (batch.more()) {
                resume(lane.id);
            }
        } catch (PosixException | Error failure) { // behind an Error, what was read and not delivered would be lost
            giveUp(lane);
            LOG.warn("lane of {} failed, opened again at the next scan: {}", lane.source, failure.toString());
        }
    }

    /** Closes a lane in disorder; the next scan opens it at its last commit. */
    private void giveUp(InboundLane lane) {
        context.stats.count("lanes_failed");
        lanes.remove(lane.id);
        synchronized (closedCounts) {
            lane.reader.counts().addTo(closedCounts);
        }
        lane.abandon();
    }

    private void deliver(InboundLane lane, Received envelope) {
        try {
            dispatch.dispatch(lane, envelope);
        } catch (WireException refused) {
            context.stats.count("rejected_" + refused.reason().toLowerCase(java.util.Locale.ROOT));
            LOG.warn("envelope of {} rejected: {}", lane.source, refused.getMessage());
            lane.drop(envelope.token());
        } catch (RuntimeException failure) {
            context.stats.count("dispatch_failures");
            LOG.error("dispatch of an envelope of {} failed", lane.source, failure);
            lane.drop(envelope.token());
        }
    }

    /** Commits and releases all lanes and the bell; nobody holds the role any more. */
    void close() {
        Collection<InboundLane> open = lanes.values();
        open.forEach(InboundLane::close);
        open.clear();
        inbox.close();
        if (bell != null) {
            waker.close();
            bell.close();
        }
    }

    @Override
    public int openLanes() {
        return lanes.size();
    }

    @Override
    public void addCounts(Map<String, Object> total) {
        synchronized (closedCounts) {
            closedCounts.forEach(total::put);
        }
        lanes.values().forEach(lane -> lane.reader.counts().addTo(total));
        if (inbox.junk() > 0) {
            total.merge("foreign_files", (long) inbox.junk(), (old, more) -> (Long) old + (Long) more);
        }
    }
}
