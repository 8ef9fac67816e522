package speed.runtime;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import speed.core.Log;
import speed.errors.SpeedException;
import speed.errors.WireException;
import speed.fs.Bell;
import speed.fs.Inbox;
import speed.fs.LaneReader;
import speed.fs.PosixException;
import speed.fs.Received;
import speed.fs.Waker;
import speed.wire.Limits;
import speed.wire.NodeId;

/**
 * The protocol role: wait on the bell, read lanes, check, dispatch (L-8 to L-21, T-11). Owns bell, inbox and inbound
 * lanes. The {@link Reader} holds the role; {@link #turn} is everything that it does once.
 */
final class Protocol implements Introspection.Lanes {
    private static final Log LOG = new Log("speed.protocol");
    /** Bounds per lane and wake-up: no lane starves the others (L-19). */
    private static final int READ_ENVELOPES = 64;
    private static final int READ_BYTES = 4 << 20;
    private static final long SCAN_NANOS = (long) (Limits.FULL_SCAN_SECONDS * 1e9);
    private static final long GRACE_NANOS = (long) (Limits.UNGRANTED_LANE_GRACE_SECONDS * 1e9);
    private static final long SHORTEST_POLL_NANOS = 500_000;
    private static final long LONGEST_POLL_NANOS = 20_000_000;
    private static final long NOW = Long.MIN_VALUE;
    /** A step that failed is tried again after so long, and not in a busy loop. */
    private static final long FAILED_NANOS = 50_000_000;

    /** One step of a turn. */
    private interface Step {
        void take() throws PosixException;
    }

    private final Context context;
    private final Bell bell;
    private final Waker waker;
    private final Inbox inbox;
    private final Dispatch dispatch;
    private final Map<NodeId, InboundLane> lanes = new ConcurrentHashMap<>();
    private final Map<String, Long> ungranted = new HashMap<>();
    private final Map<String, Object> closedCounts = new HashMap<>();
    private final Departures departures;
    /** Nodes that were written to and did not hear their bells: perhaps they are gone. */
    private final Set<String> unheard = ConcurrentHashMap.newKeySet();
    private final SomeLines lines = new SomeLines();
    private long pollNanos = SHORTEST_POLL_NANOS;
    private volatile long nextScan = NOW;
    private volatile long waitsUntil = Long.MAX_VALUE;

    /** A protocol; without a bell lanes are polled (L-22). */
    Protocol(Context context, Bell bell, Inbox inbox, Dispatch dispatch) throws PosixException {
        this.context = context;
        this.bell = bell;
        this.inbox = inbox;
        this.dispatch = dispatch;
        departures = new Departures(context.pending, context.registry::isGone, dispatch::nodeDied);
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
        note(name);
        wake();
    }

    private void note(String name) {
        departures.add(name, () -> nextScan = NOW); // a scan that begins from then on finds all that it sent
    }

    /** Nobody heard a ring: whether the node is gone is looked at soon. */
    void nobodyHears(String name) {
        unheard.add(name);
        wake();
    }

    // --- the role ---

    /** Waits until there is something to do, and does it: rings, lanes, departures, deadlines, each for itself. */
    void turn() {
        Set<NodeId> rung = awaitRings();
        long now = System.nanoTime();
        guarded("reading lanes", () -> {
            if (rung == null || now >= nextScan) {
                scan(now);
            } else {
                rung.forEach(source -> drainRung(source, now));
            }
        });
        guarded("looking for nodes that left", this::failDeparted);
        guarded("looking at deadlines", () -> dispatch.expire(now));
    }

    private Set<NodeId> awaitRings() {
        try {
            return await();
        } catch (PosixException | RuntimeException | Error failure) {
            failed("waiting for rings", failure);
            context.awaitStop(FAILED_NANOS);
            return Set.of();
        }
    }

    private void guarded(String what, Step step) {
        try {
            step.take();
        } catch (PosixException | RuntimeException | Error failure) {
            failed(what, failure);
        }
    }

    /** The rings are taken: what they meant is found by the next scan. */
    private void failed(String what, Throwable failure) {
        context.stats.count("protocol_failures");
        nextScan = System.nanoTime() + FAILED_NANOS;
        lines.warn(LOG, "{} failed, it is tried again: {}", what, failure.toString());
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
        for (String name : unheard) {
            if (unheard.remove(name)) {
                readerDied(name);
            }
        }
        departures.tell(() -> nextScan != NOW, name -> {
            InboundLane lane = lanes.get(NodeId.of(name));
            return lane == null || !lane.mayHoldMore();
        });
    }

    /** Source ids that rang; empty after a timer; null if everything must be looked at. */
    private Set<NodeId> await() throws PosixException {
        if (bell == null) {
            context.awaitStop(pollNanos); // no bell here: look often after activity, seldom when idle (L-22)
            pollNanos = Math.min(pollNanos + pollNanos / 2, LONGEST_POLL_NANOS);
            return null;
        }
        Set<NodeId> rung = bell.drain();
        if (rung == null || !rung.isEmpty()) {
            return rung;
        }
        waitsUntil = Long.MAX_VALUE; // a deadline that comes while the next lines run wakes at once
        waitsUntil = Math.min(nextScan, dispatch.nextDeadline());
        block(System.nanoTime());
        return bell.drain();
    }

    private void block(long now) {
        if (waitsUntil > now) {
            long milliseconds = Math.min((waitsUntil - now + 999_999) / 1_000_000, 60_000);
            waker.await((int) milliseconds, this::readerDied);
        }
    }

    private void readerDied(String target) {
        if (context.registry.isGone(target)) {
            note(target);
        }
    }

    // --- lanes ---

    private void scan(long now) throws PosixException {
        nextScan = now + SCAN_NANOS;
        try {
            for (String source : inbox.scan()) {
                if (!lanes.containsKey(NodeId.of(source))) {
                    openLane(source, now);
                }
            }
        } finally { // lanes that are open can be read all the same
            lanes.values().forEach(lane -> drain(lane, now, true));
        }
        dispatch.lookAtLetters();
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
        if (context.registration.isOver()) {
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
        } catch (PosixException | RuntimeException | Error failure) { // what was read and not delivered would be lost
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
            lines.warn(LOG, "envelope of {} rejected: {}", lane.source, refused.getMessage());
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
