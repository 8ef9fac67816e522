package speed.internal.node;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import speed.errors.WireException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.Introspection;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.lane.InboundLane;
import speed.internal.engine.lane.InboundLanes;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.fs.Bell;
import speed.internal.fs.Bell.Waker;
import speed.internal.fs.Inbox;
import speed.internal.fs.LaneReader;
import speed.internal.fs.PosixException;
import speed.internal.fs.Received;
import speed.internal.wire.Entry;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.internal.wire.NodeId;
import speed.internal.wire.Outline;

/**
 * The protocol role: wait on the bell, read lanes, check, dispatch. Owns bell, inbox and inbound
 * lanes. The {@link Reader} holds the role; {@link #turn} is everything that it does once.
 */
final class Protocol {
    private static final Log LOG = new Log("speed.protocol");
    /** Bounds per lane and wake-up: no lane starves the others. */
    private static final int READ_ENVELOPES = 64;

    private static final int READ_BYTES = 4 << 20;
    private static final long SCAN_NANOS = (long) (Limits.FULL_SCAN_SECONDS * 1e9);
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
    private final InboundLanes lanes;
    private final Departures departures;
    /** Nodes that were written to and did not hear their bells: perhaps they are gone. */
    private final Set<String> unheard = ConcurrentHashMap.newKeySet();

    private final LogLimiter lines = new LogLimiter();
    private long pollNanos = SHORTEST_POLL_NANOS;
    /** Whether rings were lost, so that the next scan looks at everything. */
    private boolean missedRings;

    private volatile long nextScan = NOW;
    private volatile long waitsUntil = Long.MAX_VALUE;

    /** A protocol; without a bell lanes are polled. */
    Protocol(Context context, Bell bell, Inbox inbox, Dispatch dispatch) throws PosixException {
        this.context = context;
        this.bell = bell;
        this.inbox = inbox;
        this.dispatch = dispatch;
        lanes = new InboundLanes(context, inbox, dispatch::mayRead, this::resume, context.mostLanes());
        departures = new Departures(context.pending, dispatch::settle);
        waker = bell == null ? null : new Waker(bell);
    }

    // --- what other threads say ---

    void wake() {
        if (bell != null) {
            bell.wake();
        }
    }

    /** Has a new deadline noticed, if the present wait could outlast it. */
    void wakeBy(long deadline) {
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
    void unheard(String name) {
        unheard.add(name);
        wake();
    }

    /** What lies in the inbox, in numbers. */
    Introspection.Lanes lanes() {
        return lanes;
    }

    // --- the role ---

    /** Waits until there is something to do, and does it: rings, lanes, departures, deadlines, each for itself. */
    void turn() {
        Set<NodeId> rung = awaitRings();
        long now = System.nanoTime();
        guarded("reading lanes", () -> read(rung, now));
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
        missedRings = true;
        context.stats.count(Counters.PROTOCOL_FAILURES);
        nextScan = System.nanoTime() + FAILED_NANOS;
        lines.warn(LOG, "{} failed, it is tried again: {}", what, failure.toString());
    }

    /**
     * Tells those who wait for nodes that left before the present scan, once their lanes were read to the end. Where
     * one stands still they wait like all behind it; a successor answers what waits.
     */
    private void failDeparted() {
        for (String name : unheard) {
            if (unheard.remove(name)) {
                readerDied(name);
            }
        }
        departures.tell(() -> nextScan != NOW && !missedRings, this::isRead);
    }

    /** Reads the lane of a node that left, which the scan may not have had its turn for. */
    private boolean isRead(String name) {
        InboundLane lane = lanes.of(NodeId.of(name));
        if (lane != null) {
            drain(lane, System.nanoTime(), true);
        }
        return lane == null || !lane.mayHoldMore();
    }

    /** Source ids that rang; empty after a timer; null if everything must be looked at. */
    private Set<NodeId> await() throws PosixException {
        if (bell == null) {
            context.awaitStop(pollNanos); // no bell here: look often after activity, seldom when idle
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

    private void read(Set<NodeId> rung, long now) throws PosixException {
        if (rung == null || lanes.seek(rung) || now >= nextScan) {
            scan(rung, now);
            return;
        }
        for (NodeId source : rung) {
            InboundLane lane = lanes.of(source);
            if (lane != null) {
                drain(lane, now, false);
            }
        }
    }

    private void scan(Set<NodeId> rung, long now) throws PosixException {
        nextScan = now + SCAN_NANOS;
        boolean everything = rung == null || missedRings;
        missedRings = false;
        try {
            lanes.list(now);
        } finally { // lanes that are known can be read all the same
            lanes.due(rung == null ? Set.of() : rung, everything, lane -> drain(lane, now, true));
        }
        dispatch.lookAtLetters();
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
            if (batch.received().isEmpty() && !batch.more()) {
                lanes.idle(lane, scan);
            } else {
                pollNanos = SHORTEST_POLL_NANOS;
                lanes.used(lane);
            }
            if (batch.more()) {
                resume(lane.id);
            }
        } catch (PosixException | RuntimeException | Error failure) { // what was read and not delivered would be lost
            lanes.giveUp(lane);
            if (failure instanceof PosixException gone && gone.is(PosixException.ENOENT)) {
                resume(lane.id); // its sender goes on in another one
            }
            LOG.warn("lane of {} failed, opened again at the next scan: {}", lane.source, failure.toString());
        }
    }

    private void deliver(InboundLane lane, Received envelope) {
        try {
            dispatch.dispatch(lane, envelope);
        } catch (WireException refused) {
            context.stats.count(Counters.rejected(refused.reason()));
            lines.warn(
                    LOG,
                    "envelope of {} rejected: {}{}",
                    lane.source,
                    refused.getMessage(),
                    new Described(context, lane.source, envelope));
            lane.drop(envelope.token());
        } catch (RuntimeException failure) {
            context.stats.count(Counters.DISPATCH_FAILURES);
            LOG.error("dispatch of an envelope of {} failed", lane.source, failure);
            lane.drop(envelope.token());
        }
    }

    /** What a message looks like that cannot be read, and who wrote it; made only where a line is written. */
    private record Described(Context context, String source, Received envelope) {
        @Override
        public String toString() {
            Header header = envelope.header();
            boolean isMessage = header.type() == EnvelopeType.MESSAGE || header.type() == EnvelopeType.EVENT;
            if (!isMessage || header.has(EnvelopeType.SEGMENT)) {
                return "";
            }
            Entry entry = context.registry.live(source);
            String writer = entry == null ? "a node that left" : entry.language() + " " + entry.version();
            return " (" + Outline.of(envelope.payload()) + "; written by " + writer + ")";
        }
    }

    /** Commits and releases all lanes; nobody holds the role any more. */
    void close() {
        lanes.close();
        inbox.close();
    }

    /** Releases the bell, which is heard as long as the entry is there. */
    void releaseBell() {
        if (bell != null) {
            waker.close();
            bell.close();
        }
    }

    /** The thread that holds the protocol role, from the start of a node to its end. */
    static final class Reader extends Thread {
        private static final Log LOG = new Log("speed.protocol");

        private final Protocol protocol;
        private volatile boolean stopping;

        Reader(String node, Protocol protocol) {
            super("speed-" + node + "-protocol");
            this.protocol = protocol;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (!stopping) {
                protocol.turn();
            }
        }

        /** Ends after the present turn, and waits for that. */
        void end(long nanos) {
            stopping = true;
            protocol.wake();
            boolean interrupted = Thread.interrupted();
            try {
                TimeUnit.NANOSECONDS.timedJoin(this, nanos);
            } catch (InterruptedException hurry) {
                interrupted = true;
            }
            if (isAlive() && !interrupted) {
                LOG.error("{} does not end", getName());
            }
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
