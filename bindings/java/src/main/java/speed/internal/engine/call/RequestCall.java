package speed.internal.engine.call;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.core.PendingCalls.RequestKey;
import speed.internal.wire.Entry;

/** A call of a service that waits for its answer, and what is needed to find out whether it began. Thread-safe. */
final class RequestCall extends Call {
    /**
     * The life of a server that a request was written to.
     *
     * @param process null where its entry did not tell
     * @param sequences of the envelopes of the request
     * @param needed how many of them make it whole
     */
    record Sent(int generation, Entry.Process process, List<Long> sequences, int needed) {}

    final String requestId;
    /** Calls were made in the order of their numbers, and are sent again in it. */
    final long number;
    /** When its program stops waiting; monotonic. */
    final long programDeadline;
    /** The request as it was written first; null where it was not kept. */
    private volatile byte[] kept;

    private volatile boolean withdrawn;
    private volatile boolean repeated;
    private final List<Long> sequences = new ArrayList<>();
    private volatile Sent sent;
    /** Until when something is waited for that decides, or a successor; 0 before that. For the thread that reads. */
    long waitsUntil;

    RequestCall(String requestId, long programDeadline, long graceNanos, String target, Consumer<Outcome> completion) {
        super(new RequestKey(requestId), programDeadline + graceNanos, target, completion);
        this.requestId = requestId;
        number = Long.parseLong(requestId.substring(requestId.indexOf('.') + 1), 16);
        this.programDeadline = programDeadline;
    }

    void keep(byte[] payload) {
        kept = payload;
    }

    /** What can be sent again; null if nothing can. */
    byte[] kept() {
        return kept;
    }

    /** An earlier generation of its server may have run it: nothing that ends it says that it did not begin. */
    void repeat() {
        repeated = true;
    }

    boolean isRepeated() {
        return repeated;
    }

    /** Its program wants it no longer. */
    void withdraw() {
        withdrawn = true;
    }

    boolean isWithdrawn() {
        return withdrawn;
    }

    /** It is about to be written, perhaps again; returns the sequences of what was written before, which says nothing any more. */
    synchronized List<Long> writing() {
        List<Long> before = List.copyOf(sequences);
        sent = null;
        sequences.clear();
        return before;
    }

    /** Until it is sent again it is nobody's. */
    synchronized void unsend() {
        sent = null;
    }

    synchronized void writing(long sequence) {
        sequences.add(sequence);
    }

    /** It is wholly written, {@code parity} of its envelopes being parity. */
    synchronized void written(int generation, Entry.Process process, int parity) {
        sent = new Sent(generation, process, List.copyOf(sequences), Math.max(1, sequences.size() - parity));
    }

    /** What it was written to; null while it is not wholly written. */
    Sent sent() {
        return sent;
    }
}
