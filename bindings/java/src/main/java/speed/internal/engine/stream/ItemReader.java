package speed.internal.engine.stream;

import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Function;
import speed.errors.SpeedException;
import speed.internal.engine.stream.StreamChannel.Found;
import speed.internal.engine.stream.StreamChannel.Taken;
import speed.internal.wire.StreamPart;

/** The items that arrive on a channel, as values. An error is given again each time. One thread at a time reads. */
public class ItemReader<T> implements Iterator<T> {
    protected final StreamChannel channel;
    private final Function<Object, T> reading;
    private final boolean views;
    private Iterator<?> batch = Collections.emptyIterator();
    /** What the batch came with; null once it is processed. */
    private Taken inHand;

    private SpeedException error;
    private boolean isOver;

    /**
     * Reads a channel.
     *
     * @param reading makes of an item what the program asked for
     * @param views whether large bytes stay where they were opened
     */
    public ItemReader(StreamChannel channel, Function<Object, T> reading, boolean views) {
        this.channel = channel;
        this.reading = reading;
        this.views = views;
    }

    @Override
    public boolean hasNext() {
        if (batch.hasNext()) {
            return true;
        }
        if (error != null) {
            throw error;
        }
        try {
            return !isOver && refill();
        } catch (SpeedException failure) {
            throw failed(failure);
        }
    }

    @Override
    public T next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the stream is over");
        }
        try {
            return reading.apply(batch.next());
        } catch (SpeedException misfit) {
            throw failed(misfit);
        }
    }

    private boolean refill() {
        if (inHand != null) {
            Taken processed = inHand;
            inHand = null;
            channel.process(processed.items(), processed.bytes());
        }
        Taken taken = channel.waiting(this::awaitTaken);
        if (taken.found() != Found.ITEMS) {
            end(taken.found());
            isOver = true;
            return false;
        }
        inHand = taken;
        batch = StreamPart.decodeItems(taken.payload(), views).iterator();
        return batch.hasNext();
    }

    /** What arrived, but for NOTHING and PROGRESS. */
    protected Taken awaitTaken() {
        Taken taken = channel.take();
        while (taken.found() == Found.NOTHING) {
            taken = channel.await();
        }
        return taken;
    }

    /** Throws what ended the stream, if that was no good end. */
    protected void end(Found how) {
        if (how == Found.OVER) {
            throw channel.ended();
        }
    }

    /** The stream ends with an error: nothing else is read from now on. */
    protected SpeedException failed(SpeedException failure) {
        error = failure;
        batch = Collections.emptyIterator();
        return failure;
    }
}
