package speed.internal.engine.link;

import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.function.Predicate;
import speed.errors.Execution;
import speed.errors.InboxFullException;
import speed.errors.LeaseLostException;
import speed.errors.NodeClosedException;
import speed.errors.PayloadTooLargeException;
import speed.errors.StorageException;
import speed.internal.GuardedBy;
import speed.internal.core.Counters;
import speed.internal.engine.Context;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.fs.Bell.Ringer;
import speed.internal.fs.Flush;
import speed.internal.fs.LaneWriter;
import speed.internal.fs.PosixException;
import speed.internal.segment.Segment;
import speed.internal.segment.Splitter;
import speed.internal.wire.BoundLink.Bond;
import speed.internal.wire.Entry;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.LaneMac;
import speed.internal.wire.Limits;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;
import speed.options.NodeOptions;

/**
 * The link from this node to a target: one sequence, one lane, one ringer. Thread-safe. At rest it holds
 * no file open.
 */
public final class OutgoingLink {
    /** First and longest pause between two looks at a full lane; no bell announces room. */
    private static final long FIRST_PAUSE_NANOS = 1_000_000;

    private static final long LONGEST_PAUSE_NANOS = 50_000_000;
    private static final SecureRandom RANDOM = new SecureRandom();

    /** A life of the target; its process is null where no entry told it. */
    public record Life(int generation, Entry.Process process) {}

    /** Whether something may be written. */
    private enum Writing {
        ALLOWED,
        /** Nothing but the leave notice. */
        ENDED,
        /** Nothing, for good: the files are released. */
        SHUT
    }

    public final String target;
    public final Ringer ringer;
    private final Context context;
    /** Never held while its holder waits for room. */
    private final ReentrantLock lock = new ReentrantLock();

    private final Condition turn = lock.newCondition();
    /** Senders that wait for room, in their order. */
    @GuardedBy("lock")
    private final Deque<Load> queue = new ArrayDeque<>();

    private final GroupFlush flushes = new GroupFlush();

    @GuardedBy("lock")
    private final LinkSealer sealer;

    @GuardedBy("lock")
    private final LaneWriter writer;

    private final Envelopes envelopes;
    private final Consumer<OutgoingLink> used;
    /** While senders wait for room: others queue up behind them, and urgent ones do not wait. */
    private volatile boolean isFull;

    private volatile Life life = new Life(0, null);
    private volatile Bond bond;
    /** Whether it was only ever for one life of an ephemeral target. */
    private volatile boolean isOfOneLife;
    /** Cuts what goes out on a link that has a segment size; null on others. */
    private volatile Splitter splitter;

    private volatile boolean rests = true;

    @GuardedBy("lock")
    private Writing writing = Writing.ALLOWED;

    /**
     * A link at rest, to nobody until it meets somebody; {@code used} is told before each envelope, and wakes it;
     * {@code makeSpace} removes files of others on a full disk, and says whether there were any.
     */
    public OutgoingLink(
            Context context,
            String target,
            Splitter splitter,
            Consumer<OutgoingLink> used,
            Predicate<OutgoingLink> makeSpace) {
        this.splitter = splitter;
        this.used = used;
        this.context = context;
        this.target = target;
        NodeOptions options = context.options;
        NodeId targetId = NodeId.of(target);
        ringer = new Ringer(Names.bellPath(options.root(), target), context.id);
        sealer =
                new LinkSealer(context.registry.keyring(), context.id, targetId, context.generation, RANDOM::nextBytes);
        LaneMac mac = new LaneMac(context.registry.keyring(), context.id, targetId);
        writer = new LaneWriter(
                options.root(),
                options.name(),
                target,
                context.generation,
                mac,
                new LaneWriter.WriteOptions(options.maxLaneBytes(), context.polling, options.durable()));
        envelopes = new Envelopes(
                context.generation,
                sealer,
                writer,
                RANDOM::nextBytes,
                this::ring,
                () -> makeSpace.test(this) | writer.releaseSlots(0));
    }

    /** Seals and appends, rings; returns the last sequence. On an exception nothing was accepted. */
    public long send(Load load) {
        return send(load, sequence -> {});
    }

    /** The same; {@code track} gets the sequence before the envelope can be answered. */
    public long send(Load load, LongConsumer track) {
        context.checkOpen();
        return transmit(load, track);
    }

    /** Says that this node left, after everything else has ended. */
    public void sendNotice(byte[] notice) {
        lock.lock();
        try {
            writing = writing == Writing.SHUT ? Writing.SHUT : Writing.ALLOWED;
            transmitWhole(Load.urgent(EnvelopeType.DISCOVERY, 0, List.of(notice)), sequence -> {});
        } finally {
            writing = writing == Writing.SHUT ? Writing.SHUT : Writing.ENDED;
            lock.unlock();
        }
    }

    public Splitter splitter() {
        return splitter;
    }

    void cut(Splitter newSplitter) {
        splitter = newSplitter;
    }

    /** Whether a load goes in segments. */
    public boolean isCut(Load load) {
        return cutting(load) != null;
    }

    /** How many of the segments of a load are parity. */
    public int parityOf(Load load) {
        Splitter cutting = cutting(load);
        return cutting == null
                ? 0
                : cutting.shape(load.payloads().get(0).length).parityCount();
    }

    /** What cuts a load: the link's splitter, or none; a call that no envelope holds is cut all the same. */
    private Splitter cutting(Load load) {
        boolean mayBeCut = load.type().mayCarry(EnvelopeType.SEGMENT) && (load.flags() & EnvelopeType.SEGMENT) == 0;
        Splitter ofLink = splitter;
        if (!mayBeCut || ofLink != null || !load.isCall()) {
            return mayBeCut ? ofLink : null;
        }
        int largest = load.payloads().stream()
                .mapToInt(payload -> payload.length)
                .max()
                .orElse(0);
        return largest > Limits.MAX_PAYLOAD_BYTES ? Splitter.ofPayload(largest) : null;
    }

    private long transmit(Load load, LongConsumer track) {
        Splitter cutting = cutting(load);
        return cutting != null ? transmitCut(load, cutting, track) : transmitWhole(load, track);
    }

    /** Requests and responses must fit in memory at the other end; what no envelope holds needs one that takes segments. */
    private void checkCall(byte[] payload) {
        boolean takesSegments = payload.length <= Limits.MAX_PAYLOAD_BYTES || context.takesSegments(target);
        int most = takesSegments ? Limits.MAX_CALL_BYTES : Limits.MAX_PAYLOAD_BYTES;
        if (payload.length > most) {
            throw tooLarge(payload.length, most);
        }
    }

    private PayloadTooLargeException tooLarge(int bytes, int most) {
        return new PayloadTooLargeException(
                bytes + " bytes for '" + target + "'; the limit is " + most + ": send less or in parts");
    }

    private long transmitCut(Load load, Splitter cutting, LongConsumer track) {
        if (load.isCall()) {
            load.payloads().forEach(this::checkCall);
        }
        long sequence = 0;
        for (byte[] payload : load.payloads()) {
            for (Segment segment : cutting.split(payload)) {
                sequence = transmitWhole(
                        new Load(
                                load.type(),
                                load.flags() | EnvelopeType.SEGMENT,
                                List.of(segment.write()),
                                load.deadlineNanos()),
                        track);
            }
        }
        return sequence;
    }

    private long transmitWhole(Load load, LongConsumer track) {
        long total = envelopeBytes(load);
        if (load.isUrgent() && isFull) {
            throw inboxFull();
        }
        used.accept(this);
        try {
            return transmitAwake(load, total, track);
        } finally {
            stayAtRest();
        }
    }

    private long transmitAwake(Load load, long total, LongConsumer track) {
        long sequence;
        int failedBefore;
        lock.lock();
        try {
            checkNotEnded();
            if (isFull || !writer.hasRoom(total)) {
                awaitRoom(total, load);
                checkNotEnded();
            }
            context.registration.checkHeld();
            failedBefore = writer.failedFlushes();
            sequence = envelopes.append(load, track);
        } finally {
            lock.unlock();
        }
        context.stats.sent(target, load.payloads().size(), payloadBytes(load));
        try {
            context.registration.checkStillHeld();
            if (context.options.durable()) {
                sync(Sequence.counter(sequence), failedBefore);
            }
        } catch (StorageException | LeaseLostException late) {
            if (load.type() == EnvelopeType.SPC_REQUEST) {
                late.about(Execution.MAY_HAVE_RUN); // it is written all the same
            }
            throw late;
        } finally {
            ring();
        }
        return sequence;
    }

    /** Nothing is written, and nothing opened, once the node has let go of its links. */
    @GuardedBy("lock")
    private void checkNotEnded() {
        if (writing != Writing.ALLOWED) {
            context.checkOpen();
            throw new NodeClosedException("node '" + context.name() + "' was closed: nothing was written");
        }
    }

    private void ring() {
        if (!ringer.ring()) {
            context.stats.count(Counters.RINGS_UNHEARD);
            context.unheard(target);
        }
    }

    private static long payloadBytes(Load load) {
        return load.payloads().stream().mapToLong(payload -> payload.length).sum();
    }

    private long envelopeBytes(Load load) {
        for (byte[] payload : load.payloads()) {
            if (payload.length > Limits.MAX_PAYLOAD_BYTES) {
                throw tooLarge(payload.length, Limits.MAX_PAYLOAD_BYTES);
            }
        }
        return envelopes.bytes(load);
    }

    /**
     * Waits until the receiver has committed enough; the order of senders is kept, and each waits until its own deadline
     * at most. Meanwhile the link is free for those that do not send.
     */
    @GuardedBy("lock")
    private void awaitRoom(long bytes, Load load) {
        if (load.isUrgent()) {
            throw inboxFull();
        }
        queue.add(load);
        isFull = true;
        try {
            long pause = FIRST_PAUSE_NANOS;
            while (queue.peek() != load) {
                await(LONGEST_PAUSE_NANOS, load.deadlineNanos());
            }
            while (!writer.hasRoom(bytes)) {
                await(pause, load.deadlineNanos());
                pause = Math.min(pause * 2, LONGEST_PAUSE_NANOS);
            }
        } finally {
            queue.removeIf(other -> other == load);
            isFull = !queue.isEmpty();
            turn.signalAll();
        }
    }

    /** Gives the link up for a while; InboxFullException at the deadline. An interrupt counts as the deadline. */
    private void await(long nanos, long deadline) {
        long left = deadline - System.nanoTime();
        try {
            if (left > 0) {
                turn.awaitNanos(Math.min(nanos, left));
            }
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
            left = 0;
        }
        context.checkOpen();
        if (left <= 0) {
            throw inboxFull();
        }
    }

    private InboxFullException inboxFull() {
        return new InboxFullException("the inbox of '" + target + "' is full (" + context.options.maxLaneBytes()
                + " bytes may wait there): it reads too slowly or has stopped reading; retry later or send less");
    }

    /**
     * Makes the lane durable up to a counter. Who waits meanwhile shares the next flush; one that fails is told to
     * all who appended before it, since a device tells of a loss only once.
     */
    private void sync(long wanted, int failedBefore) {
        flushes.await(wanted, this::flush);
        lock.lock();
        try {
            if (writer.failedFlushes() != failedBefore) {
                throw writer.flushRefused();
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * Others append while the flush runs, and are in the next one.
     *
     * @return the counter of the last envelope that is in this one
     */
    private long flush() {
        long written;
        Flush flush;
        lock.lock();
        try {
            written = envelopes.counter();
            flush = writer.beginFlush();
        } catch (PosixException error) {
            writer.flushFailed(error);
            return envelopes.counter();
        } finally {
            lock.unlock();
        }
        run(flush);
        return written;
    }

    private void run(Flush flush) {
        try {
            flush.run();
        } catch (PosixException error) {
            lock.lock();
            try {
                writer.flushFailed(error);
            } finally {
                lock.unlock();
            }
        }
    }

    /** What is sent from now on is for these identities alone, null for none. */
    void bind(Bond newBond) {
        if (newBond == bond) {
            return;
        }
        lock.lock();
        try {
            bond = newBond;
            sealer.bind(newBond);
        } finally {
            lock.unlock();
        }
    }

    /** The identities that it is for; null for none. */
    Bond bond() {
        return bond;
    }

    /**
     * A new generation of the target gets a new segment, and has another reader at its bell.
     *
     * @param entry of the target, null where it has none
     * @param newBond as of now
     */
    void meets(int generation, Entry entry, Bond newBond) {
        lock.lock();
        try {
            if (generation > life.generation) {
                int ephemeral = entry != null && entry.ephemeral() ? entry.generation() : 0;
                envelopes.useSlots(!context.polling && entry != null && entry.has(Entry.SLOTS));
                isOfOneLife = life.generation == 0 && ephemeral != 0;
                boolean isItself = entry != null && entry.generation() == generation;
                life = new Life(generation, isItself ? entry.process() : null);
                bond = newBond;
                sealer.sealFor(ephemeral, newBond);
                rests = true;
                release();
            }
        } finally {
            lock.unlock();
        }
    }

    /** The newest generation of the target that it was for. */
    int generation() {
        return life.generation;
    }

    /** The newest life of the target that it was for. */
    public Life life() {
        return life;
    }

    boolean isOfOneLife() {
        return isOfOneLife;
    }

    /** It is used again: whether it was at rest. */
    public boolean wake() {
        boolean wakes = rests;
        rests = false;
        return wakes;
    }

    /** Holds no file open until the next envelope; waits for nobody: whoever writes just now goes on, and closes them. */
    void rest() {
        rests = true;
        if (lock.tryLock()) {
            try {
                release();
            } finally {
                lock.unlock();
            }
        }
    }

    private void stayAtRest() {
        if (rests) {
            lock.lock();
            try {
                release();
            } finally {
                lock.unlock();
            }
        }
    }

    /** The sequence goes on with the next envelope. */
    @GuardedBy("lock")
    private void release() {
        writer.close();
        ringer.close();
        envelopes.rest();
    }

    /** Removes the slots that are not used any more; waits for nobody. */
    void releaseSlots() {
        releaseSlots(context.options.lease().toNanos());
    }

    /** Removes all slots that are free, but not while somebody writes; whether there were any. */
    boolean giveSlotsBack() {
        return releaseSlots(0);
    }

    private boolean releaseSlots(long nanos) {
        if (!lock.tryLock()) {
            return false;
        }
        try {
            return writer.releaseSlots(nanos);
        } finally {
            lock.unlock();
        }
    }

    /** What is being written is the last, but for the leave notice: a successor may fence off the rest. */
    void end() {
        lock.lock();
        try {
            writing = writing == Writing.SHUT ? Writing.SHUT : Writing.ENDED;
        } finally {
            lock.unlock();
        }
    }

    /** Releases the files for good: a service that goes on after the node ended must not write under its name. */
    public void shut() {
        lock.lock();
        try {
            writing = Writing.SHUT;
            writer.releaseSlots(0);
            writer.close();
            ringer.shut();
        } finally {
            lock.unlock();
        }
    }
}
