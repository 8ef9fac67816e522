package speed.internal.engine.deliver;

import java.util.List;
import speed.errors.SpeedException;
import speed.errors.StorageException;
import speed.internal.GuardedBy;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress.Token;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.lane.Arrival;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.fs.DeadLetters;
import speed.internal.fs.LaneReader.Beginning;
import speed.internal.fs.Received;
import speed.internal.segment.Source;
import speed.internal.wire.DeadLetter;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.LetterFile;
import speed.internal.wire.NodeId;

/** What a running node does with its dead letters: keeps them, and tries those again that somebody asked for. Thread-safe. */
public final class DeadLetterBox {
    private static final Log LOG = new Log("speed.messages");

    /** Takes a letter to the program, as if it had just come. */
    public interface Again {
        void take(Lane lane, Received received, Arrival.Content content);
    }

    private final Context context;
    private final DeadLetters letters;

    @GuardedBy("this")
    private boolean started;

    public DeadLetterBox(Context context) {
        this.context = context;
        letters = new DeadLetters(
                context.options.root(), context.name(), context.registry.keyring(), context.options.durable());
    }

    /** Keeps a message for good; false where there is no room for it, or it cannot be written now. */
    synchronized boolean keep(Arrival arrival, String code, String text) {
        Source whole = arrival.content().whole();
        Header header = arrival.received.header();
        if (arrival.lane instanceof Letter again) {
            return letters.move(again.number, DeadLetters.TRYING, DeadLetters.LETTER);
        }
        try {
            boolean kept = letters.add(
                    new DeadLetter(
                            header.type().name(),
                            arrival.source(),
                            header.sequence(),
                            header.timestampMs(),
                            arrival.deliveries(),
                            code,
                            text,
                            System.currentTimeMillis(),
                            whole.size()),
                    (from, into) -> whole.read(from, into, 0, into.length));
            if (!kept) {
                context.stats.count(Counters.DEAD_LETTERS_WITHOUT_ROOM);
            }
            return kept;
        } catch (SpeedException failure) {
            context.stats.count(Counters.DEAD_LETTERS_UNWRITTEN);
            LOG.warn("a dead letter could not be written: {}", failure.getMessage());
            return false;
        }
    }

    /** Whether {@link #look} would find something; where that cannot be told now, no. */
    public synchronized boolean hasSome() {
        try {
            return !started || !letters.numbers(DeadLetters.RETRY).isEmpty();
        } catch (SpeedException failure) {
            context.stats.count(Counters.DEAD_LETTERS_UNREAD);
            return false;
        }
    }

    /** Hands over what somebody wants to be tried again; at the first time, ends what a former process was trying. */
    public synchronized void look(Again again) {
        try {
            if (!started) {
                started = true;
                for (int number : letters.numbers(DeadLetters.TRYING)) {
                    context.stats.count(Counters.DEAD_LETTERS_UNFINISHED);
                    letters.move(number, DeadLetters.TRYING, DeadLetters.LETTER);
                }
            }
            for (int number : letters.numbers(DeadLetters.RETRY)) {
                if (letters.move(number, DeadLetters.RETRY, DeadLetters.TRYING)) {
                    tryAgain(number, again);
                }
            }
        } catch (SpeedException failure) {
            context.stats.count(Counters.DEAD_LETTERS_UNREAD);
        }
    }

    private void tryAgain(int number, Again again) {
        try {
            LetterFile.Opened opened = letters.read(number, DeadLetters.TRYING);
            DeadLetter known = opened.letter();
            Header header = new Header(
                    EnvelopeType.valueOf(known.type()),
                    0,
                    known.sequence(),
                    known.timestampMs(),
                    opened.payload().length,
                    NodeId.of(known.source()),
                    context.id,
                    0);
            again.take(
                    new Letter(number, known.source()),
                    new Received(header, opened.payload(), true, false, null),
                    Arrival.Content.of(opened.payload()));
            context.stats.count(Counters.DEAD_LETTERS_TRIED_AGAIN);
        } catch (SpeedException damaged) {
            context.stats.count(Counters.DEAD_LETTERS_UNREAD);
            LOG.warn("dead letter {} cannot be tried again: {}", number, damaged.getMessage());
            letters.move(number, DeadLetters.TRYING, DeadLetters.LETTER);
        }
    }

    /** A letter that is being tried again: its file is gone once it was handled. */
    private final class Letter implements Lane {
        private final int number;
        private final String source;
        private int begun = 1;

        Letter(int number, String source) {
            this.number = number;
            this.source = source;
        }

        @Override
        public String source() {
            return source;
        }

        @Override
        public boolean isDeadLetter() {
            return true;
        }

        @Override
        public boolean finish(List<Token> tokens) {
            synchronized (DeadLetterBox.this) {
                try {
                    return letters.remove(number, DeadLetters.TRYING);
                } catch (StorageException failure) {
                    context.stats.count(Counters.DEAD_LETTERS_UNFINISHED);
                    return false;
                }
            }
        }

        @Override
        public void drop(Token token) {
            finish(List.of());
        }

        @Override
        public boolean isClosed() {
            return false;
        }

        @Override
        public int begin(Token token) {
            return ++begun;
        }

        @Override
        public Beginning begin(Token token, boolean isIdempotent) {
            throw new IllegalStateException("a dead letter is no request");
        }

        @Override
        public void finishForOther(Token token) {
            throw new IllegalStateException("a dead letter is no request");
        }
    }
}
