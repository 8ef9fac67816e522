package speed.internal.engine.lane;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import speed.Cancellation;
import speed.internal.core.LaneProgress.Token;
import speed.internal.core.Log;
import speed.internal.core.Work;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.engine.threads.WorkerPool.Job;
import speed.internal.fs.Received;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.SpcHead;

/** One accepted request until it is answered, by whoever takes the answer first. Thread-safe. */
public final class AcceptedRequest implements Job {
    private static final Log LOG = new Log("speed.spc");

    /** How far it came. */
    public enum Phase {
        QUEUED,
        BEGUN,
        ANSWERED
    }

    /** Where its envelope lies, and how it is committed: another lane than before once a failed one was opened again. */
    public record Place(Lane lane, Token token) {}

    public final SpcHead head;
    public final byte[] payload;
    /** Fingerprint of the caller's identity; empty without one. */
    public final String identity;
    /** When it was written; Unix ms. */
    public final long writtenMs;
    /** Whether nobody can tell if it was begun before. */
    public final boolean uncertain;
    /** Monotonic. */
    public final long deadline;
    /** Monotonic. */
    public final long takenAt = System.nanoTime();

    public final Cancellation cancellation = new Cancellation();
    private static final long LOOK_NANOS = 100_000_000;

    private final Consumer<AcceptedRequest> service;
    private final AtomicReference<Phase> phase = new AtomicReference<>(Phase.QUEUED);
    private volatile boolean withdrawn;
    private volatile boolean isCommitted;
    private volatile Place place;

    public AcceptedRequest(
            Consumer<AcceptedRequest> service, Lane lane, Received received, SpcHead head, long deadline) {
        this.service = service;
        this.head = head;
        this.deadline = deadline;
        payload = received.payload();
        identity = received.identity();
        writtenMs = received.header().timestampMs();
        uncertain = received.uncertain();
        place = new Place(lane, received.token());
    }

    @Override
    public void run(Work<Job> work) {
        service.accept(this);
    }

    public String source() {
        return place.lane.source();
    }

    /** It was committed before it begins: its answer need not commit it again. */
    public void committed() {
        isCommitted = true;
    }

    /** Commits it, unless that was done; what fails then is tried again with its answer. */
    public void commit() {
        Place at = place;
        if (!isCommitted && at.lane.finish(List.of(at.token))) {
            isCommitted = true;
        }
    }

    /** What is still to be committed with its answer. */
    public List<Token> uncommitted() {
        return isCommitted ? List.of() : List.of(place.token);
    }

    /** Generation of the caller that sent it. */
    public int generation() {
        return Sequence.generation(place.token.sequence);
    }

    public Place place() {
        return place;
    }

    /** The same request came again, from the lane that was opened again; false once it has begun. */
    public synchronized boolean adopt(Place again) {
        if (phase.get() != Phase.QUEUED) {
            return false;
        }
        place = again;
        notifyAll();
        return true;
    }

    /** Where it lies once another lane has it; where it lay if it was withdrawn meanwhile. */
    public synchronized Place awaitAnother(Place failed) {
        while (place == failed && !cancellation.isCancelled()) {
            try {
                TimeUnit.NANOSECONDS.timedWait(this, LOOK_NANOS);
            } catch (InterruptedException leftover) {
                withdrawn = true; // who interrupts a worker before it begins wants it not to begin
                break;
            }
        }
        return place;
    }

    /** From here on it has begun; false if it was answered or withdrawn before. */
    public boolean begin() {
        return !withdrawn && phase.compareAndSet(Phase.QUEUED, Phase.BEGUN);
    }

    /** Nobody wants its answer any more, for whatever reason. */
    public void withdraw() {
        withdrawn = true;
        try {
            cancellation.raise();
        } catch (RuntimeException failure) {
            LOG.error("what a service does when a call is withdrawn failed", failure);
        }
    }

    /** Gives the right to answer to the first who asks, and says how far it came; null to all others. */
    public Phase answer() {
        Phase before = phase.getAndSet(Phase.ANSWERED);
        return before == Phase.ANSWERED ? null : before;
    }
}
