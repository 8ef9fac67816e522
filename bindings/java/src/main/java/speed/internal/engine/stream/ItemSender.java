package speed.internal.engine.stream;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import speed.ItemWriter;
import speed.errors.Execution;
import speed.errors.PayloadTooLargeException;
import speed.errors.SpeedException;
import speed.internal.GuardedBy;
import speed.internal.core.Log;
import speed.internal.engine.stream.StreamChannel.Reserved;
import speed.internal.wire.Limits;
import speed.internal.wire.StreamPart;
import speed.internal.wire.Values;

/**
 * Sends what one producer gives, several items an envelope; none is held back while the producer thinks. A thread of its
 * own sends what was given since it sent last. A producer that is quicker sends full envelopes itself. One thread at a
 * time writes.
 */
public final class ItemSender implements ItemWriter {
    private static final Log LOG = new Log("speed.spc");
    private static final int MAX_ITEM_BYTES = Limits.MAX_PAYLOAD_BYTES - Limits.MAX_HEAD_BYTES;
    private static final long END_NANOS = 1_000_000_000L;

    private final StreamChannel channel;
    private final Consumer<Throwable> onError;
    /** Held while items are taken and written, so that they keep their order. */
    private final Object sending = new Object();

    @GuardedBy("this")
    private List<byte[]> encoded = new ArrayList<>();

    @GuardedBy("this")
    private int bytes;

    /** Whether the thread waits for items. */
    @GuardedBy("this")
    private boolean rests;

    @GuardedBy("this")
    private boolean isOver;

    /** How many items were sent; whoever holds {@code sending} counts them. */
    private long number;

    private volatile SpeedException error;
    private Thread thread;

    /**
     * Sends on a channel.
     *
     * @param onError is told what kept its thread from sending, before the channel is closed
     */
    public ItemSender(StreamChannel channel, Consumer<Throwable> onError) {
        this.channel = channel;
        this.onError = onError;
    }

    @Override
    public void write(Object item) {
        byte[] one = Values.encode(item, "item");
        if (one.length > MAX_ITEM_BYTES) {
            throw new PayloadTooLargeException(
                    "an item of " + one.length + " bytes; the limit is " + MAX_ITEM_BYTES + ": give it in parts");
        }
        reserve(one.length);
        add(one);
    }

    /** Waits for credit for an item of this size. */
    private void reserve(long size) {
        Reserved reserved = channel.reserve(size);
        checkOpen(reserved == Reserved.NOTHING ? channel.waiting(() -> awaitCredit(size)) : reserved);
    }

    private Reserved awaitCredit(long size) {
        Reserved reserved = channel.awaitCredit(size);
        while (reserved == Reserved.NOTHING) {
            reserved = channel.awaitCredit(size);
        }
        return reserved;
    }

    private void checkOpen(Reserved reserved) {
        if (error != null) {
            throw error;
        }
        if (reserved == Reserved.OVER) {
            throw channel.ended();
        }
    }

    private void add(byte[] one) {
        synchronized (this) {
            if (bytes + one.length <= Limits.STREAM_ENVELOPE_BYTES) {
                keep(one);
                one = null;
            }
        }
        if (one != null) {
            flush(false);
            synchronized (this) {
                keep(one);
            }
        }
        if (thread == null) {
            thread = channel.thread("stream", this::run);
            thread.start();
        }
    }

    @GuardedBy("this")
    private void keep(byte[] one) {
        encoded.add(one);
        bytes += one.length;
        if (rests) {
            rests = false;
            notifyAll();
        }
    }

    /** Waits until the other side begins to take items; the end of none may come too early for it otherwise. */
    public void awaitFirstCredit() {
        reserve(0);
    }

    /**
     * Sends what is left. Throws what kept it from being sent.
     *
     * @param last whether to say that there is no more, as callers do
     */
    public void finish(boolean last) {
        if (error != null) {
            throw error;
        }
        flush(last);
    }

    /** Ends the thread, which sends nothing more; waits a moment for it. */
    public void stop() {
        synchronized (this) {
            isOver = true;
            notifyAll();
        }
        if (thread != null) {
            try {
                TimeUnit.NANOSECONDS.timedJoin(thread, END_NANOS);
            } catch (InterruptedException hurry) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void run() {
        try {
            while (hasItems()) {
                flush(false);
            }
        } catch (SpeedException failure) {
            error = failure;
            onError.accept(failure);
            channel.close();
        } catch (RuntimeException | Error odd) {
            LOG.error("items of a stream could not be sent", odd);
            onError.accept(odd);
            channel.close();
        }
    }

    /** Waits for some; false at the end. Nobody interrupts this thread. */
    private synchronized boolean hasItems() {
        try {
            while (encoded.isEmpty() && !isOver) {
                rests = true;
                TimeUnit.NANOSECONDS.timedWait(this, END_NANOS);
            }
        } catch (InterruptedException end) {
            return false;
        }
        return !isOver;
    }

    private void flush(boolean last) {
        synchronized (sending) {
            List<byte[]> some;
            synchronized (this) {
                some = encoded;
                encoded = new ArrayList<>();
                bytes = 0;
            }
            if (!some.isEmpty() || last) {
                write(some, last);
            }
        }
    }

    private void write(List<byte[]> some, boolean last) {
        try {
            channel.write(StreamPart.encodeItems(channel.requestId(), number, some, last));
        } catch (SpeedException failure) {
            failure.about(Execution.MAY_HAVE_RUN); // whoever gave credit had begun
            throw failure;
        }
        number += some.size();
    }
}
