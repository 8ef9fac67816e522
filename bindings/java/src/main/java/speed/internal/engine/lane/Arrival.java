package speed.internal.engine.lane;

import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import speed.Message;
import speed.internal.core.LaneProgress.Token;
import speed.internal.core.Work;
import speed.internal.engine.threads.WorkerPool.Job;
import speed.internal.fs.LaneReader.Beginning;
import speed.internal.fs.Received;
import speed.internal.message.OpenedMessage;
import speed.internal.segment.Source;
import speed.internal.spi.ReceivedMessage;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.MessageView;

/**
 * One message or event on its way to the program. The worker, or the thread that fetches, which has it in hand is the
 * only one that changes it.
 */
public final class Arrival implements Job {
    /**
     * What it says.
     *
     * @param stored its payload, null if that is held in memory
     * @param whole the bytes of all of it, as its envelopes carried them
     */
    public record Content(MessageView view, Source stored, Source whole) {
        public static Content of(byte[] payload) {
            return new Content(MessageView.of(payload), null, Source.of(payload));
        }
    }

    /** What puts a payload together that came in segments; WireException for one that breaks a rule. */
    public interface Assembly {
        public Content content();
    }

    /** What takes it to the program. */
    public interface Handler {
        void handle(Arrival arrival, Work<Job> work);
    }

    /** How senders are answered. */
    public interface Replies {
        public void acknowledge(String source, Received received, boolean waiting);

        public void refuse(String source, long sequence, String code, String text);
    }

    public final Lane lane;
    public final Received received;
    public final boolean isEvent;
    private final Handler handler;
    private final Replies replies;
    private final Assembly assembly;
    private Content content;
    private final AtomicBoolean done = new AtomicBoolean();
    private final AtomicBoolean answered;
    /** Monotonic. */
    private final long takenAt = System.nanoTime();

    private Runnable finished = () -> {};
    private int deliveries;
    private int failures;

    /** One whose content is known already, unless it is null: then the assembly gives it. */
    public Arrival(Handler handler, Replies replies, Lane lane, Received received, Content content, Assembly assembly) {
        this.handler = handler;
        this.replies = replies;
        this.lane = lane;
        this.received = received;
        this.content = content;
        this.assembly = assembly;
        isEvent = received.header().type() == EnvelopeType.EVENT;
        answered = new AtomicBoolean(!received.header().has(EnvelopeType.ACK_REQUESTED));
    }

    @Override
    public void run(Work<Job> work) {
        handler.handle(this, work);
    }

    public String source() {
        return lane.source();
    }

    /** What it says, put together now if it was not yet. */
    public Content content() {
        if (content == null) {
            content = assembly.content();
        }
        return content;
    }

    /** The topic; null while it was not put together. */
    public String topic() {
        return content == null ? null : content.view.topic();
    }

    public int priority() {
        return content == null ? speed.internal.wire.Limits.DEFAULT_PRIORITY : content.view.priority();
    }

    /** The message for the program, which may finish it. */
    public Message message(OpenedMessage opened) {
        return (Message) ReceivedMessage.MESSAGES
                .get()
                .apply(new ReceivedMessage(
                        opened,
                        content().stored,
                        source(),
                        received.identity(),
                        received.header().sequence(),
                        received.redelivered(),
                        deliveries,
                        this::finish));
    }

    // --- how often it was begun ---

    /** It is begun once more; one that came again is counted where the next process finds it. */
    public int begin() {
        deliveries = received.redelivered() ? lane.begin(received.token()) : deliveries + 1;
        return deliveries;
    }

    public int deliveries() {
        return deliveries;
    }

    /** Whether it was a dead letter until now. */
    public boolean isDeadLetter() {
        return lane.isDeadLetter();
    }

    /** The delivery that was begun does not count: what it failed for is not its fault. */
    public void unbegin() {
        deliveries--;
    }

    /** How long the first attempt waited, if it is about to begin; below 0 for a later one. */
    public long queuedNanos() {
        return failures == 0 ? System.nanoTime() - takenAt : -1;
    }

    /** How often it was tried again. */
    public int failed() {
        return ++failures;
    }

    // --- how it ends ---

    /** Tells the sender that it was handled, or waits for the program; at most one answer goes out. */
    public void acknowledge(boolean waiting) {
        if (answered.compareAndSet(false, true)) {
            replies.acknowledge(source(), received, waiting);
        }
    }

    public void refuse(String code, String text) {
        if (answered.compareAndSet(false, true)) {
            replies.refuse(source(), received.header().sequence(), code, text);
        }
    }

    /** What else is to be done when it is finished. */
    public void onFinish(Runnable action) {
        finished = action;
    }

    public boolean isFinished() {
        return done.get();
    }

    /** It is done with, and never delivered again. */
    public void finish() {
        if (done.compareAndSet(false, true)) {
            lane.finish(Collections.singletonList(received.token()));
            finished.run();
        }
    }

    /** Where an envelope came from, and how it is finished. */
    public interface Lane {
        /** The sender. */
        String source();

        /** Commits that these envelopes are done; false if that could not be written. */
        boolean finish(List<Token> tokens);

        /** Commits that a request begins; one of an idempotent service is finished later. */
        Beginning begin(Token token, boolean isIdempotent);

        /** A request that is for another generation of this node is done: it never begins. */
        void finishForOther(Token token);

        /** A refused envelope is done; it is committed with the next ones. */
        void drop(Token token);

        /** Whether it was closed or failed: what is finished here is not committed any more. */
        boolean isClosed();

        /** How often a message that came again has been begun, this time included: written before it is. */
        int begin(Token token);

        /** Whether what comes from here was a dead letter until now. */
        default boolean isDeadLetter() {
            return false;
        }
    }
}
