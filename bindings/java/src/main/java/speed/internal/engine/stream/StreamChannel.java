package speed.internal.engine.stream;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import speed.errors.CallWithdrawnException;
import speed.errors.InternalException;
import speed.errors.SpeedException;
import speed.internal.GuardedBy;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.ProgressRate;
import speed.internal.core.StreamCredit;
import speed.internal.core.StreamWindow;
import speed.internal.core.StreamWindow.Arrived;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.wire.StreamPart;
import speed.internal.wire.StreamPart.Credit;
import speed.internal.wire.StreamPart.Progress;
import speed.options.StreamProgress;

/**
 * One stream at one of its two nodes (S-29, S-33, S-34). Who reads lanes brings envelopes, the program's threads take and
 * give. Thread-safe.
 */
public final class StreamChannel {
    /** Details of an error that ends a stream. */
    public static final Map<String, Object> RUNNING = Map.of("phase", "running");
    /** How long a part of a stream waits for room in a full inbox, before the stream fails. */
    public static final long WRITE_NANOS = 30_000_000_000L;

    private static final long LOOK_NANOS = 100_000_000;

    /** What {@link #take} found. */
    public enum Found {
        NOTHING,
        PROGRESS,
        ITEMS,
        /** The caller's items are over. */
        LAST,
        /** Nothing comes any more: the call has ended, was withdrawn, or its stream is broken. */
        OVER
    }

    /**
     * What arrived.
     *
     * @param payload the envelope, of items
     * @param items how many
     * @param bytes of them
     * @param progress of a report
     */
    public record Taken(Found found, byte[] payload, long items, long bytes, Progress progress) {
        private static final Taken NOTHING = new Taken(Found.NOTHING);
        private static final Taken LAST = new Taken(Found.LAST);
        private static final Taken OVER = new Taken(Found.OVER);

        private Taken(Found found) {
            this(found, null, 0, 0, null);
        }
    }

    /** What {@link #reserve} found. */
    enum Reserved {
        NOTHING,
        CREDIT,
        OVER
    }

    /** How a channel sends: waits for room, or may lose what it is given. */
    public interface Writing {
        void write(byte[] payload, boolean mayWait);
    }

    /** What asks another node where that of this stream began nothing (S-40). */
    public interface Renewal {
        /** Whether another one was asked: then the channel has begun again. A thread of the program waits for it. */
        boolean renew(Outcome ended);
    }

    private final String node;
    private volatile String requestId;
    private final WorkerPool pool;
    private final Writing writing;
    private final Renewal renewal;
    /** Held while another node is asked. */
    private final Object turn = new Object();

    @GuardedBy("this")
    private final StreamWindow window;

    @GuardedBy("this")
    private final StreamCredit credit;

    @GuardedBy("this")
    private final ProgressRate rate = new ProgressRate();

    @GuardedBy("this")
    private final Queue<Taken> arrived = new ArrayDeque<>();

    @GuardedBy("this")
    private Progress progress;

    @GuardedBy("this")
    private String broken;

    @GuardedBy("this")
    private Outcome outcome;

    /** The caller's items are over. */
    @GuardedBy("this")
    private boolean isLast;

    /** Nobody waits here any more. */
    @GuardedBy("this")
    private boolean isClosed;

    /**
     * A channel of a node.
     *
     * @param node this one
     * @param window of the items that arrive
     * @param credit for those that go out
     */
    public StreamChannel(
            String node,
            String requestId,
            WorkerPool pool,
            StreamWindow window,
            StreamCredit credit,
            Writing writing,
            Renewal renewal) {
        this.node = node;
        this.requestId = requestId;
        this.pool = pool;
        this.window = window;
        this.credit = credit;
        this.writing = writing;
        this.renewal = renewal;
    }

    public String requestId() {
        return requestId;
    }

    /** Begins under a request id; nothing went over it before. */
    public synchronized void begin(String newRequestId) {
        requestId = newRequestId;
        outcome = null;
    }

    /** A thread of this stream; it keeps no program alive. */
    public Thread thread(String role, Runnable work) {
        Thread thread = new Thread(work, "speed-" + node + "-" + role + "-" + requestId);
        thread.setDaemon(true);
        return thread;
    }

    // --- by the thread that reads lanes ---

    /** One envelope of the other side. */
    synchronized void arrive(StreamPart part, byte[] payload) {
        if (part.credit() != null) {
            credit.grant(part.credit());
        } else if (part.progress() != null) {
            progress = part.progress(); // the newest counts
        } else if (!isClosed) {
            takeIn(part, payload);
        }
        notifyAll();
    }

    @GuardedBy("this")
    private void takeIn(StreamPart part, byte[] payload) {
        long bytes = payload.length - part.itemsAt();
        Arrived is = window.arrive(part.number(), part.items(), bytes);
        if (is == Arrived.AGAIN) {
            return;
        }
        if (is != Arrived.NEXT || isLast) {
            String why = is == Arrived.BEYOND_CREDIT ? "beyond credit" : "out of order";
            broken = broken == null ? "what it sent breaks the stream: " + why : broken;
            arrived.clear();
            return;
        }
        if (part.items() > 0) {
            arrived.add(new Taken(Found.ITEMS, payload, part.items(), bytes, null));
        }
        isLast = part.last();
    }

    /** The call has ended. */
    public synchronized void end(Outcome how) {
        outcome = how;
        notifyAll();
    }

    // --- by threads of the program ---

    /** Nobody waits any more; again does nothing. */
    public synchronized void close() {
        isClosed = true;
        arrived.clear();
        notifyAll();
    }

    /** How the call ended; null while it goes on. */
    public synchronized Outcome outcome() {
        return outcome;
    }

    /** What the other side did wrong; null for nothing. */
    public synchronized String broken() {
        return broken;
    }

    /** What arrived, in order, if anything did. */
    public Taken take() {
        return orNothing(look());
    }

    /** The same; waits a moment for something. */
    public Taken await() {
        return orNothing(awaited(this::look, Taken.NOTHING));
    }

    private Taken orNothing(Taken taken) {
        return taken.found() == Found.OVER && goesOn() ? Taken.NOTHING : taken;
    }

    /** Whether it goes on at another node. */
    private boolean goesOn() {
        synchronized (turn) {
            Outcome ended;
            synchronized (this) {
                ended = outcome;
                if (isClosed || broken != null) {
                    return false;
                }
            }
            return ended == null || renewal.renew(ended); // another thread asked meanwhile, or this one does
        }
    }

    private synchronized Taken look() {
        if (isClosed || broken != null) {
            return Taken.OVER;
        }
        if (progress != null) {
            Taken told = new Taken(Found.PROGRESS, null, 0, 0, progress);
            progress = null;
            return told;
        }
        Taken next = arrived.poll();
        if (next != null) {
            return next;
        }
        return outcome != null ? Taken.OVER : isLast ? Taken.LAST : Taken.NOTHING;
    }

    /** So much of what was taken was processed: gives credit when it is time. */
    void process(long items, long bytes) {
        Credit granted;
        synchronized (this) {
            granted = window.process(items, bytes);
            if (granted == null || outcome != null || isClosed || isLast) {
                return;
            }
        }
        writing.write(StreamPart.encodeCredit(requestId, granted), true);
    }

    /** The service begins to take items: gives the first credit. */
    public void open() {
        Credit granted;
        synchronized (this) {
            granted = window.open();
        }
        writing.write(StreamPart.encodeCredit(requestId, granted), true);
    }

    /** Credit for one item of so many bytes, which then counts as sent; for 0 whether any was given at all. */
    Reserved reserve(long bytes) {
        return orNothing(lookFor(bytes));
    }

    /** The same; waits a moment for credit. */
    Reserved awaitCredit(long bytes) {
        return orNothing(awaited(() -> lookFor(bytes), Reserved.NOTHING));
    }

    private Reserved orNothing(Reserved reserved) {
        return reserved == Reserved.OVER && goesOn() ? Reserved.NOTHING : reserved;
    }

    private synchronized Reserved lookFor(long bytes) {
        if (isClosed || outcome != null || broken != null) {
            return Reserved.OVER;
        }
        boolean has = bytes == 0 ? credit.hasBegun() : credit.send(bytes);
        return has ? Reserved.CREDIT : Reserved.NOTHING;
    }

    void write(byte[] payload) {
        writing.write(payload, true);
    }

    /** Tells how far the service is, if it is time; never waits, and may be lost. */
    public void report(StreamProgress told) {
        synchronized (this) {
            if (isClosed || !rate.takes(told.done(), told.total(), System.nanoTime())) {
                return;
            }
        }
        Number total = told.total() == null ? null : number(told.total());
        Progress travelling = new Progress(number(told.done()), total, told.note());
        try {
            writing.write(StreamPart.encodeProgress(requestId, travelling), false);
        } catch (SpeedException lost) {
            return; // there was no room, or nobody is there
        }
    }

    /** A whole number travels as one. */
    private static Number number(double amount) {
        return amount == Math.rint(amount) && amount < 0x1p53 ? (Number) (long) amount : (Number) amount;
    }

    /** Why nothing more comes and goes. */
    public SpeedException ended() {
        String why = broken();
        return why != null
                ? new InternalException(why, RUNNING)
                : new CallWithdrawnException("nobody waits for this stream any more", RUNNING);
    }

    /**
     * A wait of many looks. A thread that was interrupted before waits all the same; one that is meanwhile, in a look or
     * between two of them, stops, and is as interrupted as it became.
     */
    <T> T waiting(Supplier<T> wait) {
        boolean interrupted = Thread.interrupted();
        try {
            return wait.get();
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** What there is; waits a moment while it is {@code nothing}. A worker's place is given to others meanwhile. */
    private <T> T awaited(Supplier<T> look, T nothing) {
        return pool.blocking(() -> changed(look, nothing));
    }

    private synchronized <T> T changed(Supplier<T> look, T nothing) {
        long until = System.nanoTime() + LOOK_NANOS;
        try {
            T found = look.get();
            for (long left = LOOK_NANOS; found == nothing && left > 0; left = until - System.nanoTime()) {
                TimeUnit.NANOSECONDS.timedWait(this, left);
                found = look.get();
            }
            return found;
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
            throw new CallWithdrawnException("the thread was interrupted while it waited for a stream", RUNNING);
        }
    }
}
