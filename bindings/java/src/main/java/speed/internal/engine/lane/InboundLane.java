package speed.internal.engine.lane;

import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import speed.internal.GuardedBy;
import speed.internal.core.LaneProgress.Token;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.fs.Inbox;
import speed.internal.fs.LaneReader;
import speed.internal.fs.LaneReader.Beginning;
import speed.internal.fs.PosixException;
import speed.internal.fs.Received;
import speed.internal.wire.NodeId;

/**
 * One lane being read, shared by the holder of the protocol role and those who finish envelopes. Thread-safe. At rest it
 * holds no file open: what is finished meanwhile opens them for that long only.
 */
public final class InboundLane implements Lane {
    private static final LaneReader.Batch NOTHING = new LaneReader.Batch(List.of(), false);

    public final String source;
    public final NodeId id;
    final LaneReader reader;
    private final Consumer<NodeId> resume;

    @GuardedBy("this")
    private boolean paused;

    @GuardedBy("this")
    private boolean more;

    @GuardedBy("this")
    private boolean closed;

    @GuardedBy("this")
    private boolean rests;
    /** Whether its sender was gone before a scan read it, and when its directory had been changed; for the reader. */
    boolean senderIsGone;

    long changedAt = Inbox.UNSETTLED;

    public InboundLane(String source, LaneReader reader, Consumer<NodeId> resume) {
        this.source = source;
        this.id = NodeId.of(source);
        this.reader = reader;
        this.resume = resume;
    }

    /** What the reader has now, nothing while too much is unfinished. */
    public synchronized LaneReader.Batch read(int maxEnvelopes, int maxBytes, long now, boolean scan)
            throws PosixException {
        rests = false;
        paused = reader.isFull();
        more = paused && !closed;
        if (paused || closed) {
            return NOTHING;
        }
        LaneReader.Batch batch = reader.read(maxEnvelopes, maxBytes, now, scan);
        more = batch.more();
        for (Received envelope : batch.received()) {
            if (!envelope.header().type().isWork()) {
                reader.finishLazily(envelope.token());
            }
        }
        return batch;
    }

    /** Whether the last read may have left something in the lane; then it is read again, perhaps much later. */
    public synchronized boolean mayHoldMore() {
        return more;
    }

    /** Whether nothing of it is unread or unfinished. */
    synchronized boolean isRead() {
        return !more && reader.isIdle();
    }

    @Override
    public String source() {
        return source;
    }

    @Override
    public boolean finish(List<Token> tokens) {
        return changing(false, () -> {
            tokens.forEach(reader::finish);
            return reader.commit();
        });
    }

    @Override
    public Beginning begin(Token token, boolean isIdempotent) {
        return changing(Beginning.UNWRITTEN, () -> reader.begin(token, isIdempotent));
    }

    @Override
    public void finishForOther(Token token) {
        changing(false, () -> {
            reader.finishForOther(token);
            return true;
        });
    }

    /** What finishes something may let a paused lane go on; a closed one has nothing to change. */
    private <T> T changing(T whenClosed, Supplier<T> change) {
        boolean resumes;
        T result;
        synchronized (this) {
            if (closed) {
                return whenClosed;
            }
            result = change.get();
            stayAtRest();
            resumes = paused && !reader.isFull();
        }
        if (resumes) {
            resume.accept(id);
        }
        return result;
    }

    @Override
    public synchronized boolean isClosed() {
        return closed;
    }

    @Override
    public synchronized int begin(Token token) {
        if (closed) {
            return 2;
        }
        int count = reader.begin(token);
        stayAtRest();
        return count;
    }

    @Override
    public synchronized void drop(Token token) {
        if (!closed) {
            reader.finishLazily(token);
            stayAtRest();
        }
    }

    /** Holds no file open until it is read again. */
    synchronized void rest() {
        rests = true;
        stayAtRest();
    }

    @GuardedBy("this")
    private void stayAtRest() {
        if (rests && !closed) {
            reader.rest();
        }
    }

    /** Commits its position and releases the lane. */
    synchronized void close() {
        if (!closed) {
            closed = true;
            reader.close();
        }
    }

    /** Releases the lane; the next one begins at the last commit. */
    synchronized void abandon() {
        if (!closed) {
            closed = true;
            reader.abandon();
        }
    }
}
